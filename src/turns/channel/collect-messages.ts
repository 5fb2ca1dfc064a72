import type { Config } from "../../config/schema/index.ts";
import { isRunChanged } from "../../store/sql/errors.ts";
import {
  sessionId,
  type ExpectedRun,
  type Job,
  type Ms,
  type RunRecord,
  type Writes,
} from "../../store/types.ts";
import { joinMessages, joinUnread } from "./channel-input.ts";
import type { TurnDeps } from "../context.ts";
import type { ActionContext } from "../types.ts";

/** The most messages of one turn. */
const MAX_MESSAGES = 50;
/** The most queued runs of a session that are looked at. */
const MAX_QUEUED = 1000;
/** Messages that keep coming hold a turn up for so many quiet times at most. */
const MAX_QUIET_TIMES = 10;

const hasSteps = async (run: RunRecord, { store }: Pick<TurnDeps, "store">): Promise<boolean> =>
  run.startedAt !== undefined && (await store.steps.list(run.id)).length > 0;

/** Whether two messages can be answered together: in the same place, and none of them was begun. */
function belongTogether(one: RunRecord, { kind, attempts, spec }: RunRecord): boolean {
  const { channel, to, incoming } = one.spec;
  return (
    kind === "channel" &&
    attempts === 0 &&
    spec.channel === channel &&
    spec.to === to &&
    spec.incoming?.thread === incoming?.thread
  );
}

const countChars = ({ spec }: RunRecord): number =>
  spec.input.reduce((sum, { text }) => sum + text.length, 0);

/** The messages that came after a run's message and join it, oldest first. */
async function findFollowing(
  run: RunRecord,
  maxChars: number,
  { store }: Pick<TurnDeps, "store">,
): Promise<RunRecord[]> {
  const { session } = run.spec;
  const queued = await store.runs.list({
    status: "queued",
    sessionKey: session.key,
    limit: MAX_QUEUED,
  });
  // What is older than the list cannot be put in order.
  if (queued.length === MAX_QUEUED) return [];
  const later = queued
    .toReversed()
    .filter(
      (one) =>
        one.id !== run.id &&
        one.createdAt >= run.createdAt &&
        sessionId(one.spec.session) === sessionId(session),
    )
    .filter(({ spec }) => spec.command === undefined || spec.command === "new");
  let chars = countChars(run);
  const end = later.findIndex((one, at) => {
    chars += countChars(one);
    return (
      one.spec.command !== undefined ||
      !belongTogether(run, one) ||
      chars > maxChars ||
      at + 2 > MAX_MESSAGES
    );
  });
  return end < 0 ? later : later.slice(0, end);
}

/** Returns until when further messages are waited for; not after `now` if none are. */
export function getQuietEnd(times: readonly Ms[], quietMs: number, now: Ms): Ms {
  const last = times.at(-1) ?? now;
  // The clock was set back.
  if (last > now) return now;
  let begin = last;
  for (const at of times.toReversed()) {
    if (begin - at > quietMs) break;
    begin = at;
  }
  return Math.min(last + quietMs, begin + quietMs * MAX_QUIET_TIMES);
}

const toExpected = ({ status, attempts, edits = 0 }: RunRecord): ExpectedRun => ({
  status,
  attempts,
  edits,
});

/** Makes one turn of a run's message and those that follow it: one commit, so that a crash loses and doubles none. */
async function join(
  job: Job,
  run: RunRecord,
  following: readonly RunRecord[],
  deps: TurnDeps,
): Promise<RunRecord | undefined> {
  const { store, clock, runEnds } = deps;
  const all = [run, ...following];
  const { incoming: last } = (following.at(-1) ?? run).spec;
  if (!last) return run;
  const { owner: _last, ...incoming } = last;
  const isOwners = all.every(({ spec }) => spec.incoming?.owner);
  const unread = joinUnread(all.map(({ spec }) => spec.unread));
  const ids = all.flatMap(({ spec: { incoming: one } }) =>
    one ? [...(one.joined ?? []), one.replyTo] : [],
  );
  const joined = ids.filter((id) => id !== last.replyTo);
  const spec = {
    ...run.spec,
    ...joinMessages(all.map((one) => one.spec)),
    ...(unread && { unread }),
    // The reply answers the newest message.
    incoming: {
      ...incoming,
      ...(joined.length > 0 && { joined }),
      ...(isOwners && { owner: true as const }),
    },
  };
  const warnings = all.flatMap((one) => one.warnings);
  const route = {
    status: "skipped" as const,
    reason: `answered together with an earlier message, by the run ${run.id}`,
  };
  const write = (tx: Writes): void => {
    tx.runs.update(run.id, { spec, warnings }, toExpected(run));
    for (const one of following) {
      tx.runs.update(one.id, { status: "succeeded", route, endedAt: clock.now() }, toExpected(one));
      tx.jobs.delete("turn", one.id);
    }
  };
  const done = await store.commit(write, job).catch(async (error: unknown) => {
    if (!isRunChanged(error)) throw error;
    // A message was edited or cancelled meanwhile: what there is now is collected.
    await store.commit((tx) => tx.jobs.settle(job, clock.now(), { resetAttempts: true }), job);
    return false;
  });
  if (!done) return undefined;
  for (const { id } of following) runEnds.ended(id);
  return { ...run, spec, warnings };
}

/** The messages of an album come one by one, within less than this. */
const ALBUM_MS = 1_000;

const isCollecting = ({ sessions }: Config): boolean => sessions.messages !== "separate";

/** Whether two messages are of one album: those are one message, however messages are collected. */
const isSameAlbum = ({ spec: one }: RunRecord, { spec: other }: RunRecord): boolean =>
  one.incoming?.album !== undefined &&
  one.incoming.album === other.incoming?.album &&
  one.incoming.from === other.incoming.from;

/**
 * Collects the messages that came after a run's message and have no turn yet into the run. Returns the run to execute, or
 * undefined if its job was put back, since the person may go on writing, or if another gateway has it.
 */
export async function collectMessages(
  job: Job,
  run: RunRecord,
  { config }: ActionContext,
  deps: TurnDeps,
): Promise<RunRecord | undefined> {
  const isAlbum = run.spec.incoming?.album !== undefined;
  const collects = isCollecting(config);
  if ((!collects && !isAlbum) || run.attempts > 0 || (await hasSteps(run, deps))) return run;
  const found = await findFollowing(run, config.hooks.maxMessageChars, deps);
  const following = collects ? found : found.filter((one) => isSameAlbum(run, one));
  const now = deps.clock.now();
  const times = [run, ...following].map(({ createdAt }) => createdAt);
  const quietMs = collects ? config.sessions.quietTime : 0;
  const until = getQuietEnd(times, isAlbum ? Math.max(quietMs, ALBUM_MS) : quietMs, now);
  if (until > now) {
    await deps.store.commit((tx) => tx.jobs.settle(job, until, { resetAttempts: true }), job);
    return undefined;
  }
  return following.length === 0 ? run : join(job, run, following, deps);
}
