import type { Failure } from "../core/errors.ts";
import type { TextPart } from "../core/text.ts";
import { wakeMode, type Summary } from "../config/schema/common.ts";
import type { StoredAction } from "../store/types.ts";
import {
  checkAgent,
  checkWake,
  isBlank,
  type ActionSource,
  type CheckedAction,
} from "./validate.ts";
import { agentFields, toIssues } from "./fields.ts";
import type { ActionContext } from "./types.ts";

/** An action that a mapping wants, not yet checked. The same shape as the mapping engine's drafts. */
export interface DraftAction {
  action: "wake" | "agent";
  mapping: string;
  fields: Record<string, unknown>;
  content: readonly TextPart[];
  unsafe: boolean;
  marker?: string;
  warnings: readonly string[];
  freshKeyPrefix?: string;
  summary?: Summary;
}

const invalid = (failure: Omit<Failure, "code">): { ok: false; failure: Failure } => ({
  ok: false,
  failure: { code: "invalid_body", ...failure },
});

/** Checks a mapping's draft exactly as a request's body is checked. Never throws. */
export function checkDraft(
  draft: DraftAction,
  origin: Pick<ActionSource, "hook" | "credential" | "now">,
  context: ActionContext,
): CheckedAction<StoredAction> {
  const source: ActionSource = {
    ...origin,
    mapping: draft.mapping,
    unsafe: draft.unsafe,
    fromRequest: false,
  };
  if (isBlank(draft.content)) {
    const field = draft.action === "wake" ? "text" : "message";
    return {
      ok: false,
      failure: {
        code: "mapping_incomplete",
        message: `${field} came out empty`,
        issues: [{ path: field, message: "came out empty" }],
      },
    };
  }
  if (draft.action === "wake") {
    const mode = wakeMode.safeParse(draft.fields["wakeMode"] ?? "now");
    if (!mode.success)
      return invalid({
        message: "wakeMode: use `now` or `next-heartbeat`",
        issues: [{ path: "wakeMode", message: "use `now` or `next-heartbeat`" }],
      });
    const agentId = draft.fields["agentId"];
    return checkWake(
      draft.content,
      { mode: mode.data, agentId: typeof agentId === "string" ? agentId : undefined },
      source,
      context,
    );
  }
  const fields = agentFields.safeParse(draft.fields);
  if (!fields.success) {
    const issues = toIssues(fields.error);
    return invalid({ message: `the action has a wrong ${issues[0]?.path ?? "field"}`, issues });
  }
  if (typeof draft.fields["instructions"] === "string")
    source.instructions = draft.fields["instructions"];
  if (draft.freshKeyPrefix !== undefined) source.freshKeyPrefix = draft.freshKeyPrefix;
  if (draft.summary !== undefined) source.summary = draft.summary;
  const checked = checkAgent(draft.content, fields.data, source, context, [...draft.warnings]);
  if (checked.ok && draft.marker !== undefined) checked.action.spec.marker = draft.marker;
  return checked;
}
