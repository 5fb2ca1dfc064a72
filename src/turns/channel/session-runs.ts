import {
  sessionId,
  type Lists,
  type Reads,
  type RunRecord,
  type SessionRef,
} from "../../store/types.ts";

/** Lists runs of a session, newest first. The main sessions of several agents have the same key. */
export async function listSessionRuns(
  session: SessionRef,
  query: Omit<Lists["runs"]["of"], "sessionKey">,
  store: Reads,
): Promise<RunRecord[]> {
  const runs = await store.runs.list({ ...query, sessionKey: session.key });
  return runs.filter(({ spec }) => sessionId(spec.session) === sessionId(session));
}
