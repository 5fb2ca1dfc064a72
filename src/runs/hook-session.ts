import { sessionId, type RunRecord, type Store } from "../store/types.ts";

/** What a run finds of its session. */
interface OpenedSession {
  /** Whether the session has no turn yet. */
  isNew: boolean;
  warning?: string;
}

/**
 * Looks at a hook run's session before its turn.
 * @returns with a warning if the session is new and another path or credential has one with the same key.
 */
export async function openSession(run: RunRecord, store: Store): Promise<OpenedSession> {
  const { session } = run.spec;
  if (session.origin !== "hook") return { isNew: false };
  const sameKey = await store.list("hookSessions", { agentId: session.agentId, key: session.key });
  const id = sessionId(session);
  if (sameKey.some(({ ref }) => sessionId(ref) === id)) return { isNew: false };
  const others = sameKey.filter(({ turns }) => turns > 0);
  if (others.length === 0) return { isNew: true };
  return {
    isNew: true,
    warning:
      "sessionKey: another path or credential has a session with this key; this one is new and empty (hooks.sharedSessions names keys that paths share)",
  };
}
