import { isDeepStrictEqual } from "node:util";
import { getExactInput } from "../agent/tools/call-inputs.ts";
import type { Clock } from "../core/clock.ts";
import { MAX_NOTE, TIMEOUT, renderVerdict, type WrittenDecision } from "../vocabulary/decision.ts";
import type { Failure } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { writeDelivery, type Planned } from "../delivery/plan.ts";
import {
  ENDED,
  getJobId,
  type ApprovalDecision,
  type ApprovalRecord,
  type Lists,
  type Store,
  type Verdict,
  type Writes,
  type RunRecord,
} from "../store/types.ts";
import { randomInt } from "node:crypto";
import { unknownId } from "../vocabulary/unknown-id.ts";
import { renderPhrase } from "../vocabulary/phrases.ts";

/** A decision that a person on a channel wrote or pressed. */
interface ChannelDecision extends WrittenDecision {
  channel: string;
  /** The person's id, as `IncomingMessage.from` gives it. */
  person: string;
}

/** Renders why a decision does not count. Without the approval, the approver has written the code of none. */
function renderRefusal(
  { code: problem }: Failure,
  approval: ApprovalRecord | undefined,
  language: string | undefined,
): string {
  if (problem === "not_approver") return renderPhrase(language, "decisions.notAllowed");
  if (!approval) return renderPhrase(language, "decisions.noApproval");
  const { code, decision } = approval;
  if (problem === "approval_decided" && decision)
    return renderPhrase(language, "decisions.before", {
      code,
      past: renderPhrase(language, `decisions.past.${decision.verdict}`),
      by: decision.by,
      at: new Date(decision.at).toISOString(),
    });
  if (problem === "approval_expired" || problem === "run_ended" || problem === "approval_changed")
    return renderPhrase(language, `decisions.${problem}`, { code });
  const forms = getVerdicts(approval).map((verdict) => `\`${renderVerdict(verdict, code)}\``);
  return renderPhrase(language, "decisions.wrongVerdict", { code, verdicts: forms.join(", ") });
}

/**
 * Records the decision of a person on a channel; `ok` says whether it was recorded. `answer` renders the answer to that person in
 * the language of a language tag. Throws if the store cannot be reached.
 */
export async function answerDecision(
  { channel, person, verdict, code, note }: ChannelDecision,
  approvals: Pick<Approvals, "decide">,
): Promise<{ ok: boolean; answer(language?: string): string }> {
  const decided = await approvals.decide(code, verdict, `${channel}:${person}`, note);
  if (!decided.ok)
    return {
      ok: false,
      answer: (language) => renderRefusal(decided.failure, decided.approval, language),
    };
  const tool = `\`${decided.approval.tool}\``;
  return {
    ok: true,
    answer: (language) =>
      `${renderPhrase(language, `decisions.made.${verdict}`, { tool })} (${code})`,
  };
}

/** No two of these characters look alike, and they form no words. */
const ALPHABET = "23456789abcdef";
const MIN_LENGTH = 3;

/** Creates a code for people to type. The store refuses the code of an open approval; each further try is one character longer. */
export const createCode = (tries = 0): string =>
  Array.from({ length: MIN_LENGTH + tries }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");

/** A code as a person types it: case and white space do not matter. */
const normalizeCode = (text: string): string => text.trim().toLowerCase();

/** Plans the messages about an approval, for the commits that add it or record its decision. */
export interface Questions {
  plan(approval: ApprovalRecord, run: Pick<RunRecord, "id" | "spec">): readonly Planned[];
  planEnd(approvalId: string, decision: ApprovalDecision): Promise<readonly Planned[]>;
}

/** A decision that was recorded, or why it was refused, with the approval if the caller may know of it. */
export type Decided =
  | { ok: true; approval: ApprovalRecord }
  | { ok: false; failure: Failure; approval?: ApprovalRecord };

interface ApprovalsDeps {
  store: Store;
  clock: Pick<Clock, "now">;
  log: Logger;
  /** Returns the approvers, in the form of `by`. */
  approvers(): readonly string[];
  questions: Pick<Questions, "planEnd">;
  metrics?: { refused(reason: string): void };
}

/** The most approvals that are searched for a code: of the open ones, and of those decided last. */
const MAX_OPEN = 500;
const MAX_DECIDED = 200;

type Refused = Extract<Decided, { ok: false }>;
const refuse = (code: Failure["code"], message: string, approval?: ApprovalRecord): Refused => ({
  ok: false,
  failure: { code, message },
  ...(approval && { approval }),
});
const refuseMissing = (idOrCode: string): Refused => ({
  ok: false,
  failure: unknownId("approval", idOrCode),
});

/** The verdicts that fit an approval. */
export const getVerdicts = ({ reason }: Pick<ApprovalRecord, "reason">): readonly Verdict[] =>
  reason === "outcome_unknown" ? ["repeat", "done", "give_up"] : ["approve", "deny"];

/** The verdict of an approval that closes without a decision of a person: the call is not made. */
export const getClosingVerdict = ({ reason }: Pick<ApprovalRecord, "reason">): Verdict =>
  reason === "outcome_unknown" ? "give_up" : "deny";

/** Writes a decision, with the messages that remove the buttons of its question. */
export function writeDecision(
  tx: Writes,
  approvalId: string,
  decision: ApprovalDecision,
  ends: readonly Planned[],
): void {
  tx.approvals.decide(approvalId, decision);
  for (const end of ends) writeDelivery(tx, end);
}

/** Renders a decision: `approved by operator at 2026-01-31T08:00:00.000Z`. */
const renderDecision = ({ verdict, by, at }: ApprovalDecision): string =>
  by === TIMEOUT
    ? `expired at ${new Date(at).toISOString()}`
    : `${renderPhrase("en", `decisions.past.${verdict}`)} by ${by} at ${new Date(at).toISOString()}`;

function refuseDecided(approval: ApprovalRecord, decision: ApprovalDecision): Refused {
  const { code } = approval;
  const decided = { ...approval, decision };
  if (decision.by === TIMEOUT)
    return refuse(
      "approval_expired",
      `the approval ${code} ${renderDecision(decision)}: the call was not made`,
      decided,
    );
  const message = `the approval ${code} was decided before (${renderDecision(decision)}): a decision cannot be changed`;
  return refuse("approval_decided", message, decided);
}

/** Approvals of tool calls, and the decisions of people. */
export class Approvals {
  readonly #deps: ApprovalsDeps;

  constructor(deps: ApprovalsDeps) {
    this.#deps = deps;
  }

  /** Lists approvals, newest first. */
  list(query: Lists["approvals"]["of"]): Promise<ApprovalRecord[]> {
    return this.#deps.store.approvals.list(query);
  }

  /** Gets an approval by its id or its code. If several decided approvals had the code, the newest. */
  async get(idOrCode: string): Promise<ApprovalRecord | undefined> {
    const { store } = this.#deps;
    if (idOrCode.startsWith("apr_")) return store.approvals.get(idOrCode);
    const code = normalizeCode(idOrCode);
    for (const query of [
      { state: "open", limit: MAX_OPEN } as const,
      { state: "decided", limit: MAX_DECIDED } as const,
    ]) {
      const found = (await store.approvals.list(query)).find((approval) => approval.code === code);
      if (found) return found;
    }
    return undefined;
  }

  /**
   * Records the decision of `by` (`operator`, `api:<key id>`, `<channel>:<person>`), and lets the run continue. A refusal is
   * logged, counted and kept with the approval.
   */
  async decide(idOrCode: string, verdict: Verdict, by: string, note?: string): Promise<Decided> {
    const { log, clock, metrics, store } = this.#deps;
    const approval = await this.get(idOrCode);
    const at = clock.now();
    const decision: ApprovalDecision = {
      verdict,
      by,
      at,
      ...(note === undefined ? {} : { note: note.slice(0, MAX_NOTE) }),
    };
    const refused =
      this.#findProblem(idOrCode, approval, decision) ??
      (approval && (await this.#write(approval, decision)));
    if (approval && !refused) return { ok: true, approval: { ...approval, decision } };
    const answer = refused ?? refuseMissing(idOrCode);
    const { failure } = answer;
    metrics?.refused(failure.code);
    log.warn(
      { approvalId: approval?.id, by, verdict, code: failure.code },
      "a decision about a tool call was refused",
    );
    if (approval)
      await store.commit((tx) =>
        tx.approvals.addRefused(approval.id, { verdict, by, at, code: failure.code }),
      );
    return answer;
  }

  /** Returns why a decision does not fit. A caller who may not decide learns nothing about approvals. */
  #findProblem(
    idOrCode: string,
    approval: ApprovalRecord | undefined,
    { verdict, by, at }: ApprovalDecision,
  ): Refused | undefined {
    if (!this.#deps.approvers().includes(by))
      return refuse(
        "not_approver",
        `${by} is not in tools.approvers of the config, so it may not decide about tool calls`,
      );
    if (!approval) return refuseMissing(idOrCode);
    const { code, decision, expiresAt } = approval;
    if (decision) return refuseDecided(approval, decision);
    const verdicts = getVerdicts(approval);
    if (!verdicts.includes(verdict))
      return refuse(
        "usage",
        `"${verdict}" does not fit the approval ${code}: it takes ${verdicts.join(", ")}`,
        approval,
      );
    if (expiresAt > at) return undefined;
    return refuse(
      "approval_expired",
      `the approval ${code} expired at ${new Date(expiresAt).toISOString()}: the call is not made`,
      approval,
    );
  }

  /** Commits a decision and wakes the run. Returns the refusal if the run has ended, its call has changed, or the approval was decided meanwhile. */
  async #write(approval: ApprovalRecord, decision: ApprovalDecision): Promise<Refused | undefined> {
    const { store, log, questions } = this.#deps;
    const { id, code, runId, callId, tool, input } = approval;
    const run = await store.runs.get(runId);
    if (!run || ENDED.includes(run.status))
      return refuse(
        "run_ended",
        `the run of the approval ${code} has ended, so there is nothing to decide`,
        approval,
      );
    const call = (await store.steps.list(runId))
      .flatMap(({ calls }) => calls)
      .find((one) => one.id === callId);
    if (!call || !isDeepStrictEqual(getExactInput(call), input))
      return refuse(
        "approval_changed",
        `the run no longer makes the call that the approval ${code} is about: its arguments have changed`,
        approval,
      );
    const ends = await questions.planEnd(id, decision);
    try {
      await store.commit((tx) => {
        writeDecision(tx, id, decision, ends);
        tx.jobs.reschedule("turn", getJobId(run), decision.at);
      });
    } catch (error) {
      const { decision: first } = (await store.approvals.get(id)) ?? {};
      if (first) return refuseDecided(approval, first);
      throw error;
    }
    log.info(
      { approvalId: id, runId, tool, verdict: decision.verdict, by: decision.by },
      "a tool call was decided about",
    );
    return undefined;
  }
}
