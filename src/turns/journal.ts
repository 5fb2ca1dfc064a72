/** Everything that a try writes about its run: its steps and results, its waits, and its end. */
import { isDeepStrictEqual } from "node:util";
import type { Journal } from "../agent/types.ts";
import { addUsage } from "../agent/usage.ts";
import { backOff, WAITS } from "../core/backoff.ts";
import { readMonotonic } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import { getClosingVerdict, writeDecision, type Questions } from "../people/approvals.ts";
import { ID_TAKEN, NOT_OPEN } from "../store/sql/errors.ts";
import {
  STORE_UNAVAILABLE,
  type ApprovalDecision,
  type ApprovalRecord,
  type FencingToken,
  type Hold,
  type HoldReason,
  type Job,
  type LimitReason,
  type Ms,
  type PastWait,
  type RunChange,
  type RunRecord,
  type StepRecord,
  type Store,
  type Usage,
  type Writes,
} from "../store/types.ts";
import { TIMEOUT } from "../vocabulary/decision.ts";
import type { ExecutorDeps } from "./context.ts";
import type { Try } from "./try.ts";

/** Milliseconds after which a run without a job stops repeating a commit: it ends with its process, and a person waits for it. */
const MAX_WITHOUT_JOB: Ms = 30_000;

/**
 * Does what needs the store, and again while the store is unavailable: a model or a tool has been paid for what is written.
 * A commit with a job ends by itself once the lease is lost. A commit may be written though its answer was lost: `isWritten` is
 * asked before each repeat, and if it is true, the result is `written`.
 * @throws the error of the last try if the gateway stops, or if `attempt` fails for another reason.
 */
export async function persist<T>(
  { run, kind: { job }, signal, deps: { clock, log } }: Try,
  attempt: () => T | Promise<T>,
  { isWritten, written }: { isWritten?: () => Promise<boolean>; written?: T } = {},
): Promise<T> {
  const since = readMonotonic(clock);
  for (let failures = 0; ; failures++) {
    try {
      if (failures > 0 && (await isWritten?.())) return written as T;
      return await attempt();
    } catch (error) {
      const { code, message } = safeError(error);
      // The commit whose answer was lost has written the record.
      if (failures > 0 && written !== undefined && message === ID_TAKEN.message) return written;
      const isOver =
        signal.reason === "drain" || (!job && readMonotonic(clock) - since > MAX_WITHOUT_JOB);
      if (isOver || code !== STORE_UNAVAILABLE.code) throw error;
      if (failures === 0)
        log.error(
          { err: safeError(error), runId: run.id },
          "a result could not be written; it is tried again until it is",
        );
      await clock.sleep(backOff(failures + 1, WAITS.commit), signal.aborted ? undefined : signal);
    }
  }
}

/** Commits what becomes of a run, as long as it takes. False if another gateway has the run. */
export const commitFor = (current: Try, write: (tx: Writes) => void): Promise<boolean> =>
  persist(current, () => current.deps.store.commit(write, current.kind.job));

/** Waits that a run keeps: the newest. */
const MAX_WAITS = 20;
/** Approvals that a wait which is over names. */
const MAX_APPROVALS = 10;
/** A shorter wait in the queue is none: each run is taken from it. */
const MIN_QUEUED_MS = 1000;

/** Returns the hold of a run by its record: a batch that is open is one, too. */
export const getHold = (run: RunRecord): Hold | undefined =>
  run.kind === "hook" && run.status === "collecting" && run.collect
    ? { reason: "batch", since: run.collect.firstAt, until: run.collect.closesAt }
    : run.hold;

/** The approvals that a run waits for: those that are open, or were when it began to wait. */
export const getApprovalIds = ({ hold }: RunRecord): readonly string[] =>
  hold?.reason === "person" ? hold.approvalIds : [];

function getPastWait(run: RunRecord, until: Ms): PastWait | undefined {
  const hold = getHold(run);
  if (hold?.reason === "person")
    return { ...hold, approvalIds: hold.approvalIds.slice(0, MAX_APPROVALS), until };
  if (hold) return { ...hold, until };
  const { status, queuedAt, startedAt, createdAt } = run;
  const since = queuedAt ?? (startedAt === undefined ? createdAt : undefined);
  return status === "queued" && since !== undefined ? { reason: "queue", since, until } : undefined;
}

/** Time in which a run has waited for people and limits until `now`. */
export const getWaitedMs = ({ waitedMs = 0, hold }: RunRecord, now: Ms): Ms =>
  hold?.reason === "limit" || hold?.reason === "person"
    ? waitedMs + Math.max(0, now - hold.since)
    : waitedMs;

type WaitChange = Pick<RunChange, "hold" | "queuedAt" | "waitedMs" | "waits">;

/** The change of a run whose wait is over at `now`. Empty if it has not waited: such a run is written as before. */
export function endHold(run: RunRecord, now: Ms): WaitChange {
  const waitedMs = getWaitedMs(run, now);
  const change: WaitChange = {
    ...(run.hold && { hold: null }),
    ...(run.queuedAt !== undefined && { queuedAt: null }),
    ...(waitedMs > 0 && { waitedMs }),
  };
  const wait = getPastWait(run, now);
  const least = wait?.reason === "queue" ? MIN_QUEUED_MS : 1;
  if (!wait || now - wait.since < least) return change;
  return { ...change, waits: [...(run.waits ?? []), wait].slice(-MAX_WAITS) };
}

/** The change of a run that begins to wait. One that waits for the same already has waited all the time. */
export function beginHold(run: RunRecord, reason: HoldReason, now: Ms): WaitChange {
  const { hold } = run;
  const isSame =
    hold?.reason === reason.reason &&
    (hold.reason !== "away" || reason.reason !== "away" || hold.of === reason.of);
  return isSame
    ? { hold: { ...reason, since: hold.since } }
    : { ...endHold(run, now), hold: { ...reason, since: now } };
}

/** The change of a run that goes into the queue, or behind a limit. */
export const toQueued = (parked: LimitReason | undefined, now: Ms) =>
  parked
    ? ({ status: "parked", hold: { reason: "limit", ...parked, since: now } } as const)
    : ({ status: "queued", queuedAt: now } as const);

/**
 * Counts the starts of a run that ended with their process, since it got further last. Being taken from the queue is no
 * start: only one that is on disk counts. A start of a gateway that still runs was given back: its store was unavailable.
 */
export async function countCrashes(
  run: RunRecord,
  steps: readonly StepRecord[],
  { cluster }: ExecutorDeps,
): Promise<number> {
  const { crashCount = 0, status, gateway, progress = 0 } = run;
  if (getProgress(steps) > progress) return 0;
  const isCrash =
    status === "running" && gateway !== cluster.id && (await isGone(gateway, cluster));
  return crashCount + (isCrash ? 1 : 0);
}

/** True if a gateway has ended. */
async function isGone(
  gateway: string | undefined,
  cluster: ExecutorDeps["cluster"],
): Promise<boolean> {
  if (gateway === undefined) return true;
  return (await cluster.list()).find(({ id }) => id === gateway)?.gone ?? true;
}

/** The journal of one attempt of a run. */
export interface RunJournal extends Journal {
  /** The number of steps and results that this attempt has committed. */
  readonly committed: number;
}

/** The progress of a run: its steps, and its calls that have an answer. */
export const getProgress = (steps: readonly StepRecord[]): number =>
  steps.reduce(
    (sum, { calls }) => sum + 1 + calls.filter(({ output }) => output !== undefined).length,
    0,
  );

/** Returns the decision for an approval that has expired. */
const timedOut = (approval: Pick<ApprovalRecord, "reason" | "expiresAt">): ApprovalDecision => ({
  verdict: getClosingVerdict(approval),
  by: TIMEOUT,
  at: approval.expiresAt,
});

/** Records that the time for a decision is over. Returns the decision of a person if there is one already. */
async function writeTimeout(
  approval: ApprovalRecord,
  job: Job | undefined,
  { store, questions }: ExecutorDeps,
): Promise<ApprovalDecision> {
  const { id } = approval;
  const decision = timedOut(approval);
  const ends = await questions.planEnd(id, decision);
  try {
    await store.commit((tx) => writeDecision(tx, id, decision, ends), job);
    return decision;
  } catch (error) {
    const made = (await store.approvals.get(id))?.decision;
    if (!made) throw error;
    return made;
  }
}

/**
 * Creates the journal of a try: its commits are refused once another gateway has the job. `writeFirst` adds to the commit of
 * the first step.
 */
export function createJournal(current: Try, writeFirst?: (tx: Writes) => void): RunJournal {
  const { run, steps, deps } = current;
  const { job } = current.kind;
  const { store, clock } = deps;
  let first = writeFirst;
  let committed = 0;
  // A step that is not written costs another model call, and a result leaves its call with an unknown outcome.
  const keep = (commit: () => Promise<boolean>): Promise<boolean> =>
    persist(current, commit, { written: true });
  const count = (held: boolean): boolean => {
    if (held) committed++;
    return held;
  };
  /** True for this run, and for those of its session. */
  const isOwn = async (runId: string): Promise<boolean> =>
    runId === run.id ||
    isDeepStrictEqual((await store.runs.get(runId))?.spec.session, run.spec.session);

  return {
    steps,
    get committed() {
      return committed;
    },
    async addStep(step) {
      const held = await keep(() =>
        store.commit((tx) => {
          first?.(tx);
          tx.steps.add(step);
        }, job),
      );
      first = undefined;
      steps.push(step);
      return count(held);
    },
    async updateCalls(changes) {
      const write = (tx: Writes): void => {
        for (const { id, change, whole } of changes) {
          tx.steps.updateCall(run.id, id, change);
          if (whole !== undefined) tx.toolResults.add({ id, runId: run.id, text: whole });
        }
      };
      return count(await keep(() => store.commit(write, job)));
    },
    async getWhole(id) {
      const stored = await store.toolResults.get(id);
      return stored && (await isOwn(stored.runId)) ? stored.text : undefined;
    },
    async getDecision(approvalId) {
      const approval = await store.approvals.get(approvalId);
      if (!approval) return timedOut({ reason: "outcome_unknown", expiresAt: clock.now() });
      if (approval.decision) return approval.decision;
      if (clock.now() < approval.expiresAt) return undefined;
      return writeTimeout(approval, job, deps);
    },
  };
}

const MAX_REFUSALS = 8;

const isRefusal = (error: unknown): boolean =>
  [ID_TAKEN.message, NOT_OPEN.message].includes(safeError(error).message ?? "");

/** Retries a commit that the store refused because a person has just decided, or a code is in use. */
export async function commitAgain<T>(attempt: (refusals: number) => Promise<T>): Promise<T> {
  for (let refusals = 0; ; refusals++) {
    try {
      return await attempt(refusals);
    } catch (error) {
      if (refusals >= MAX_REFUSALS || !isRefusal(error)) throw error;
    }
  }
}

/** Adds up what a run has used so far: its steps, and the summary that was made for it. */
export const addRunUsage = ({ steps, summaryUsage }: Pick<Try, "steps" | "summaryUsage">): Usage =>
  addUsage([...(summaryUsage ? [summaryUsage] : []), ...steps.map(({ usage }) => usage)]);

/**
 * Says of the calls that a run leaves open when it ends what is known of them: one that was started has an unknown outcome,
 * one that waited for a person was not made.
 */
function closeCalls(tx: Writes, steps: readonly StepRecord[], now: Ms): void {
  for (const { runId, calls } of steps)
    for (const { id, state, output, startedAt, endedAt = now } of calls) {
      if (output !== undefined) continue;
      if (startedAt !== undefined) tx.steps.updateCall(runId, id, { state: "unknown", endedAt });
      else if (state === "waiting") tx.steps.updateCall(runId, id, { state: "denied", endedAt });
    }
}

interface EndOptions {
  store: Store;
  now: Ms;
  held?: Job | FencingToken | undefined;
  by: string;
  questions: Questions;
  /** Those of the run; absent: they are read. */
  steps?: readonly StepRecord[];
}

/** Commits the end of a run, and closes the calls and the approvals that it leaves open. */
export async function commitEnd(
  run: Pick<RunRecord, "id" | "startedAt">,
  write: (tx: Writes) => void,
  { store, now, held, by, questions, steps: known }: EndOptions,
): Promise<boolean> {
  const steps = known ?? (run.startedAt === undefined ? [] : await store.steps.list(run.id));
  const writeAll = (tx: Writes): void => {
    closeCalls(tx, steps, now);
    write(tx);
  };
  const hasAsked = steps.some(({ calls }) => calls.some((call) => call.approvalId !== undefined));
  if (!hasAsked) return store.commit(writeAll, held);
  return commitAgain(async () => {
    const open = await store.approvals.list({ runId: run.id, state: "open", limit: 1000 });
    const closed = await Promise.all(
      open.map(async (approval) => {
        const decision: ApprovalDecision = {
          verdict: getClosingVerdict(approval),
          by,
          at: now,
          note: "the run has ended",
        };
        return { id: approval.id, decision, ends: await questions.planEnd(approval.id, decision) };
      }),
    );
    return store.commit((tx) => {
      for (const { id, decision, ends } of closed) writeDecision(tx, id, decision, ends);
      writeAll(tx);
    }, held);
  });
}
