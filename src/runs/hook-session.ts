import { isSharedKey } from "../core/session-key.ts";
import {
  sessionId,
  type Job,
  type RunRecord,
  type SessionRef,
  type Store,
} from "../store/types.ts";
import { buildRunJob } from "./run-result.ts";
import type { ActionContext } from "./types.ts";

/**
 * Gives a run that an earlier version accepted the session of its event's path and credential, and puts it into the queue
 * of that session. Returns false, and does nothing, for any other run.
 */
export async function assignSession(
  job: Job,
  run: RunRecord,
  context: ActionContext,
  store: Store,
): Promise<boolean> {
  const { session, hook } = run.spec;
  if (
    session.origin !== "hook" ||
    session.via ||
    isSharedKey(session.key, context.config.hooks.sharedSessions)
  )
    return false;
  const event = run.eventId === null ? undefined : await store.get("event", run.eventId);
  // An event is kept as long as its run is queued; a run that is retried later may be without.
  const via = { path: event?.path ?? hook, credential: event?.credential ?? "hooks.token" };
  const spec = { ...run.spec, session: { ...session, via } };
  await store.commit((tx) => {
    tx.update("run", run.id, { spec });
    tx.settle(job);
    tx.add("job", buildRunJob(run.id, spec, job.enqueuedAt));
  }, job);
  return true;
}

/** Turns that a session takes over from an earlier version: more than the windows of most models have room for. */
const MAX_ADOPTED = 2_000;

/** Moves the newest turns of a session that an earlier version wrote to the session of the path that used it last. */
async function adopt(
  job: Job,
  before: SessionRef,
  session: SessionRef,
  store: Store,
): Promise<boolean> {
  const turns = await store.list("turns", { ...before, limit: MAX_ADOPTED });
  if (turns.at(-1)?.hook !== session.via?.path) return false;
  await store.commit((tx) => {
    for (const { seq: _seq, ...turn } of turns) tx.add("turn", session, turn);
    tx.delete("session", before);
  }, job);
  return true;
}

/** What a run finds of its session. */
interface OpenedSession {
  /** Whether the session has no turn yet. */
  isNew: boolean;
  warning?: string;
}

/**
 * Looks at a hook run's session before its turn: a new one takes over what an earlier version kept for its path.
 * @returns with a warning if the session is new and another path or credential has one with the same key.
 */
export async function openSession(job: Job, run: RunRecord, store: Store): Promise<OpenedSession> {
  const { session } = run.spec;
  if (session.origin !== "hook") return { isNew: false };
  const sameKey = await store.list("hookSessions", { agentId: session.agentId, key: session.key });
  const id = sessionId(session);
  if (sameKey.some(({ ref }) => sessionId(ref) === id)) return { isNew: false };
  const others = sameKey.filter(({ turns }) => turns > 0);
  const before = others.find(({ ref }) => !ref.via);
  if (before && session.via && (await adopt(job, before.ref, session, store)))
    return { isNew: false };
  if (others.length === 0) return { isNew: true };
  return {
    isNew: true,
    warning:
      "sessionKey: another path or credential has a session with this key; this one is new and empty (hooks.sharedSessions names keys that paths share)",
  };
}
