import { randomInt } from "node:crypto";
import type { NewApproval } from "../agent/journal.ts";
import type { PausedTurn } from "../agent/types.ts";
import { safeError } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import { ID_TAKEN, NOT_OPEN } from "../store/errors.ts";
import type { ApprovalDecision, ApprovalRecord, Job, Ms, RunRecord, Store, Writes } from "../store/types.ts";

/** How long a run waits for people. */
export const APPROVAL_TIMEOUT_MS = 86_400_000;

/** Letters and digits that nobody takes for one another. */
const CODE_DIGITS = "23456789abcdefghjkmnpqrstuvwxyz";
const MIN_CODE = 3;
const MAX_REFUSALS = 8;

const newCode = (length: number): string => Array.from({ length }, () => CODE_DIGITS[randomInt(CODE_DIGITS.length)]).join("");

/** The id of the job that a run is executed for: a decision wakes it. */
export const getJobId = ({ id, kind, spec }: Pick<RunRecord, "id" | "kind" | "spec">): string =>
  kind === "heartbeat" ? `heartbeat:${spec.session.agentId}` : id;

function buildApproval(ask: NewApproval, run: RunRecord, now: Ms, codeLength: number): ApprovalRecord {
  return {
    ...ask,
    id: newId("apr", now),
    code: newCode(codeLength),
    runId: run.id,
    agentId: run.spec.session.agentId,
    askedAt: now,
    expiresAt: now + APPROVAL_TIMEOUT_MS,
  };
}

/** The approvals of a run that nobody has decided. */
const listOpen = (store: Pick<Store, "list">, runId: string): Promise<ApprovalRecord[]> =>
  store.list("approvals", { runId, state: "open", limit: 1000 });

const isRefusal = (error: unknown): boolean => [ID_TAKEN.message, NOT_OPEN.message].includes(safeError(error).message ?? "");

/** Repeats a commit that the store refuses because a person has just decided, or a code is taken. */
async function commitAgain<T>(attempt: (refusals: number) => Promise<T>): Promise<T> {
  for (let refusals = 0; ; refusals++) {
    try {
      return await attempt(refusals);
    } catch (error) {
      if (refusals >= MAX_REFUSALS || !isRefusal(error)) throw error;
    }
  }
}

/**
 * Lets a run wait for people: approvals, calls, run and job are one commit. The job keeps its place in the session, and
 * starts again at the first decision or when the first approval is over. Returns the approvals that are new; undefined if
 * another gateway has the job.
 */
export async function writeWaiting(
  run: RunRecord,
  { asks, open }: PausedTurn,
  job: Job,
  { store, now }: { store: Store; now: Ms },
): Promise<readonly ApprovalRecord[] | undefined> {
  const getOpen = async (): Promise<ApprovalRecord[]> =>
    (await Promise.all(open.map((id) => store.get("approval", id)))).filter((approval) => approval !== undefined);
  const before = await getOpen();
  const approvals = await commitAgain(async (refusals) => {
    const made = asks.map((ask) => buildApproval(ask, run, now, MIN_CODE + refusals));
    const until = Math.min(...[...before, ...made].map(({ expiresAt }) => expiresAt));
    const held = await store.commit((tx) => {
      for (const approval of made) {
        const state = approval.reason === "outcome_unknown" ? "unknown" : "waiting";
        tx.add("approval", approval);
        tx.update("toolCall", run.id, approval.callId, { state, approvalId: approval.id });
      }
      const waiting = { approvalIds: [...open, ...made.map(({ id }) => id)], since: run.waiting?.since ?? now };
      tx.update("run", run.id, { status: "waiting", waiting, crashCount: 0, failures: 0 });
      tx.settle(job, until, { resetAttempts: true });
    }, job);
    return held ? made : undefined;
  });
  // A decision that came while the turn was under way could not wake its job.
  if (approvals && (await getOpen()).some(({ decision }) => decision !== undefined))
    await store.commit((tx) => tx.update("job", "turn", job.id, now));
  return approvals;
}

/** Commits the end of a run, and closes the approvals that it leaves open. */
export function commitEnd(
  run: Pick<RunRecord, "id" | "waiting">,
  write: (tx: Writes) => void,
  { store, now, job, by }: { store: Store; now: Ms; job?: Job | undefined; by: string },
): Promise<boolean> {
  if (!run.waiting) return store.commit(write, job);
  return commitAgain(async () => {
    const open = await listOpen(store, run.id);
    return store.commit((tx) => {
      for (const { id, reason } of open) {
        const decision: ApprovalDecision = {
          verdict: reason === "outcome_unknown" ? "give_up" : "deny",
          by,
          at: now,
          note: "the run has ended",
        };
        tx.add("decision", id, decision);
      }
      write(tx);
    }, job);
  });
}
