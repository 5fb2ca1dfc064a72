import { z } from "zod";
import { newId } from "../core/ids.ts";
import { isSharedKey, newSessionKey, sessionKeyProblem } from "../vocabulary/session-key.ts";
import { cutText, joinParts, oneLine, plainText, type TextPart } from "../core/text.ts";
import type { ErrorCode, Failure, Issue } from "../core/errors.ts";
import {
  optionalField,
  type Summary,
  thinking,
  type WakeMode,
  wakeMode,
} from "../config/schema/common.ts";
import { LAST_CHANNEL, findRouteProblem, type Channels } from "../delivery/channels.ts";
import type {
  ReplyTarget,
  HookAction,
  HookSpec,
  RunAction,
  SessionRef,
  WakeAction,
} from "../store/types.ts";
import type { ActionContext } from "./types.ts";

const text = z.string();
const notBlank = text.refine((text) => text.trim() !== "", "must not be blank");
const idempotencyKey = optionalField(
  text.min(1).max(256),
  "A repeat with the same key is answered as the first.",
);

/** The body of `POST {base}/wake`. */
export const wakeBody = z.object({
  text: notBlank.describe("What happened."),
  mode: wakeMode.default("now").describe("`now` starts a heartbeat immediately."),
  agentId: optionalField(
    text,
    "The agent whose main session gets the event; default the first of `agents.list`.",
  ),
  idempotencyKey,
});

/** Fields of an agent action besides its message: of requests, templates and transforms alike. */
export const agentFields = z.object({
  name: text.optional().describe("The hook's name in summaries; default `Hook`."),
  agentId: text.optional().describe("The agent that takes the turn."),
  sessionKey: text.optional().describe("Turns with the same key are one conversation, in order."),
  wakeMode: optionalField(wakeMode, "Whether the main session's heartbeat follows immediately."),
  deliver: z.boolean().optional().describe("Send the reply to a channel."),
  channel: text.optional().describe("The reply's channel; default `last`."),
  to: text.optional().describe("The recipient: the reply goes to no other one."),
  model: text.optional().describe("`<provider>/<model>` or an alias."),
  thinking: thinking.optional().describe("How much the model thinks."),
  timeoutSeconds: z.number().positive().optional().describe("Time for the turn."),
});
export type AgentFields = z.output<typeof agentFields>;

/** The body of `POST {base}/agent`. */
export const agentBody = agentFields.extend({
  message: notBlank.describe("What the agent is asked."),
  idempotencyKey,
});

/** Returns the fields of a body without those that are null: null is treated as absent. */
export function withoutNulls(body: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}

/** zod's problems as ours: one entry for each, with the dotted path of the field. */
export function toIssues(error: z.ZodError): Issue[] {
  return error.issues.map((issue) => ({ path: issue.path.join("."), message: issue.message }));
}

/** A warning for each field that the schema does not know. */
export function unknownFields(body: Record<string, unknown>, schema: z.ZodObject): string[] {
  const known = schema.shape;
  const warnings: string[] = [];
  for (const key of Object.keys(body)) {
    if (!Object.hasOwn(known, key))
      warnings.push(`the field "${key.slice(0, 64)}" is not known and was ignored`);
  }
  return warnings;
}

/** An action that a mapping wants, not yet checked. The same shape as the mapping engine's drafts. */
interface DraftAction {
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
): CheckedAction<HookAction> {
  const source: ActionSource = {
    ...origin,
    mapping: draft.mapping,
    unsafe: draft.unsafe,
    fromRequest: false,
  };
  if (plainText(draft.content).trim() === "") {
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
    const [first] = issues;
    return invalid({
      message: `the action has a wrong ${first ? `${first.path}: ${first.message}` : "field"}`,
      issues,
    });
  }
  if (typeof draft.fields["instructions"] === "string")
    source.instructions = draft.fields["instructions"];
  if (draft.freshKeyPrefix !== undefined) source.freshKeyPrefix = draft.freshKeyPrefix;
  if (draft.summary !== undefined) source.summary = draft.summary;
  const checked = checkAgent(draft.content, fields.data, source, context, [...draft.warnings]);
  if (checked.ok && draft.marker !== undefined) checked.action.spec.marker = draft.marker;
  return checked;
}

/** The origin of an action. */
export interface ActionSource {
  /** The hook path, which the boundary's trusted line names. */
  hook: string;
  /** The configured credential that the event came in by; absent if a change is tried on a body. */
  credential?: string | undefined;
  mapping?: string;
  unsafe: boolean;
  instructions?: string;
  /** Set if the mapping's key had an empty part: the run gets a key of its own, which begins so. */
  freshKeyPrefix?: string;
  /** The mapping's own; default `hooks.summary`. */
  summary?: Summary;
  /** A caller's own request: the `allowRequest…` switches bind it. */
  fromRequest: boolean;
  now: number;
}

type CheckedAction<A> = { ok: true; action: A } | { ok: false; failure: Failure };

const MAX_NAME = 200;

const fail = (code: ErrorCode, path: string, message: string): { ok: false; failure: Failure } => ({
  ok: false,
  failure: { code, message: `${path}: ${message}`, issues: [{ path, message }] },
});

/** Cuts a message that is too long, from its end, with a mark. */
function cutParts(parts: readonly TextPart[], limit: number): { parts: TextPart[]; cut: number } {
  const joined = joinParts(parts);
  let left = limit;
  const kept: TextPart[] = [];
  let cut = 0;
  for (const part of joined) {
    const piece = cutText(part.text, left);
    if (piece.text !== "") kept.push({ text: piece.text, outside: part.outside });
    left -= piece.text.length;
    cut += piece.cut;
  }
  if (cut > 0)
    kept.push({ text: `[cut: ${cut} characters]`, outside: kept.at(-1)?.outside ?? true });
  return { parts: joinParts(kept), cut };
}

/** Checks a wake action. The text is not blank: callers have seen to it. */
export function checkWake(
  text: readonly TextPart[],
  { mode, agentId: given }: { mode: WakeMode; agentId?: string | undefined },
  source: ActionSource,
  context: ActionContext,
): CheckedAction<WakeAction> {
  const agentId: Checked<string> =
    given === undefined
      ? { ok: true, value: context.agents.default.id }
      : checkAgentId({ agentId: given }, context);
  if (!agentId.ok) return agentId;
  const { parts } = cutParts(text, context.config.hooks.maxMessageChars);
  const action: WakeAction = {
    kind: "wake",
    systemEventId: newId("sev", source.now),
    hook: source.hook,
    agentId: agentId.value,
    text: parts,
    mode,
    unsafe: source.unsafe,
  };
  if (source.mapping !== undefined) action.mapping = source.mapping;
  return { ok: true, action };
}

type Checked<T> = { ok: true; value: T } | { ok: false; failure: Failure };

function checkAgentId(
  fields: Pick<AgentFields, "agentId">,
  context: ActionContext,
): Checked<string> {
  const { agents, config } = context;
  const agentId = fields.agentId ?? agents.default.id;
  if (!agents.get(agentId))
    return fail("unknown_agent", "agentId", "names no agent of agents.list");
  const allowed = config.hooks.allowedAgentIds;
  if (allowed && !allowed.includes(agentId))
    return fail("agent_not_allowed", "agentId", "is not in hooks.allowedAgentIds");
  return { ok: true, value: agentId };
}

function checkSessionKey(
  fields: AgentFields,
  source: ActionSource,
  context: ActionContext,
): Checked<string> {
  const { allowRequestSessionKey, defaultSessionKey, allowedSessionKeyPrefixes } =
    context.config.hooks;
  if (source.freshKeyPrefix !== undefined)
    return { ok: true, value: newSessionKey(allowedSessionKeyPrefixes, source.freshKeyPrefix) };
  const given = fields.sessionKey;
  if (given === undefined)
    return { ok: true, value: defaultSessionKey ?? newSessionKey(allowedSessionKeyPrefixes) };
  if (source.fromRequest && !allowRequestSessionKey) {
    return fail(
      "session_key_not_allowed",
      "sessionKey",
      "hooks.allowRequestSessionKey is false: leave the field out",
    );
  }
  const problem = sessionKeyProblem(given, allowedSessionKeyPrefixes);
  return problem
    ? fail("session_key_not_allowed", "sessionKey", problem)
    : { ok: true, value: given };
}

/** The session of a key: of this path and credential, unless the key is shared. */
function hookSession(
  agentId: string,
  key: string,
  { hook: path, credential }: ActionSource,
  context: ActionContext,
): SessionRef {
  const session: SessionRef = { agentId, origin: "hook", key };
  if (credential !== undefined && !isSharedKey(key, context.config.hooks.sharedSessions))
    session.via = { path, credential };
  return session;
}

/** Checks the recipient of an action; undefined if the action names none. An empty one of a mapping is no fault of the sender: no route. */
function checkRecipient(
  { to: given }: AgentFields,
  channel: ReturnType<Channels["resolve"]>,
  { fromRequest }: ActionSource,
  channels: Channels,
): Checked<string | undefined> {
  const to = given?.trim();
  if (to === "" && fromRequest) return fail("invalid_recipient", "to", "must not be blank");
  // The channel that `last` means is known when the run starts.
  if (!to || !channel?.loaded) return { ok: true, value: to };
  const checked = channels.checkRecipient(channel.id, to);
  return checked.ok
    ? { ok: true, value: checked.to }
    : fail("invalid_recipient", "to", checked.message);
}

function checkRoute(
  fields: AgentFields,
  source: ActionSource,
  context: ActionContext,
  warnings: string[],
): Checked<ReplyTarget> {
  const { channels, config } = context;
  if (
    source.fromRequest &&
    !config.hooks.allowRequestRecipient &&
    (fields.to !== undefined || fields.channel !== undefined)
  ) {
    const path = fields.to === undefined ? "channel" : "to";
    return fail(
      "invalid_recipient",
      path,
      "hooks.allowRequestRecipient is false: leave `to` and `channel` out",
    );
  }
  const name = fields.channel ?? LAST_CHANNEL;
  const found = name === LAST_CHANNEL ? undefined : channels.resolve(name);
  if (name !== LAST_CHANNEL && !found)
    return fail("unknown_channel", "channel", `use "last" or one of: ${channels.names.join(", ")}`);
  const target: ReplyTarget = { channel: found?.id ?? LAST_CHANNEL };
  const recipient = checkRecipient(fields, found, source, channels);
  if (!recipient.ok) return recipient;
  if (recipient.value !== undefined) target.to = recipient.value;
  const problem =
    fields.deliver === false
      ? undefined
      : findRouteProblem(target, channels, context.rooms.ownerChannels);
  if (problem) warnings.push(problem.message);
  return { ok: true, value: target };
}

function checkTimeout(
  seconds: number | undefined,
  context: ActionContext,
  warnings: string[],
): number | undefined {
  const most = context.config.agents.defaults.maxTimeoutSeconds;
  if (seconds === undefined || seconds <= most) return seconds;
  warnings.push(`timeoutSeconds was lowered to ${most}, agents.defaults.maxTimeoutSeconds`);
  return most;
}

/** Decides if a heartbeat follows the run: only the operator can keep the summary quiet, and then no caller can wake. */
function checkWakeMode(
  fields: AgentFields,
  source: ActionSource,
  context: ActionContext,
  warnings: string[],
): WakeMode {
  if ((source.summary ?? context.config.hooks.summary) === "heartbeat")
    return fields.wakeMode ?? "now";
  if (fields.wakeMode === "now")
    warnings.push("wakeMode `now` has no effect: the hook's `summary` is `quiet`");
  return "next-heartbeat";
}

/** Checks an agent action against the snapshot and makes the run that it becomes. */
export function checkAgent(
  message: readonly TextPart[],
  fields: AgentFields,
  source: ActionSource,
  context: ActionContext,
  warnings: string[],
): CheckedAction<RunAction<HookSpec>> {
  const agentId = checkAgentId(fields, context);
  if (!agentId.ok) return agentId;
  const key = checkSessionKey(fields, source, context);
  if (!key.ok) return key;
  const route = checkRoute(fields, source, context, warnings);
  if (!route.ok) return route;
  let model: string | undefined;
  if (fields.model !== undefined) {
    const resolved = context.models.resolveRequested(fields.model);
    if (!resolved.ok) return fail(resolved.code, "model", resolved.message);
    // An alias with fallbacks is looked up again by the run, which needs all of them.
    model = resolved.model.fallbacks ? fields.model : resolved.model.ref;
  }
  const limit = context.config.hooks.maxMessageChars;
  const { parts, cut } = cutParts(message, limit);
  if (cut > 0) warnings.push(`message was cut to ${limit} characters, hooks.maxMessageChars`);
  const name = cutText(oneLine(fields.name ?? "") || "Hook", MAX_NAME);
  if (name.cut > 0) warnings.push(`name was cut to ${MAX_NAME} characters`);
  const spec: HookSpec = {
    session: hookSession(agentId.value, key.value, source, context),
    name: name.text,
    hook: source.hook,
    input: parts,
    wakeMode: checkWakeMode(fields, source, context, warnings),
    deliver: fields.deliver ?? true,
    target: route.value,
    unsafe: source.unsafe,
  };
  if (source.instructions !== undefined) spec.instructions = source.instructions;
  if (model !== undefined) spec.model = model;
  if (fields.thinking !== undefined) spec.thinking = fields.thinking;
  const timeout = checkTimeout(fields.timeoutSeconds, context, warnings);
  if (timeout !== undefined) spec.timeoutSeconds = timeout;
  const action: RunAction<HookSpec> = {
    kind: "run",
    runId: newId("run", source.now),
    spec,
    warnings,
  };
  if (source.mapping !== undefined) action.mapping = source.mapping;
  return { ok: true, action };
}
