import { RouseError } from "../../core/errors.ts";
import {
  sessionId,
  type Checkpoint,
  type Lists,
  type SessionOrigin,
  type SessionRef,
  type TurnRecord,
} from "../../store/types.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { readPage, refuse, searchPage, type PageQuery } from "./operation.ts";
import type { AdminDeps } from "../types.ts";
import { iso, pick, pickOrNull, sessionView, unusedSession } from "./views.ts";

/** The name of a session. Only the key is needed, unless several sessions have it. */
export interface SessionName {
  key: string;
  agent?: string | undefined;
  origin?: SessionOrigin | undefined;
  path?: string | undefined;
  credential?: string | undefined;
}

export type SessionDetail = Awaited<ReturnType<typeof showSession>>;

/** Returns the sessions that a name may mean; no hook may have a key of the API's or a channel's. A hook's key that begins as a schedule's needs `origin`. */
async function findCandidates(
  { store, snapshot }: AdminDeps,
  name: SessionName,
): Promise<SessionRef[]> {
  const { agent, origin, key, path, credential } = name;
  const { list, default: first } = snapshot().agents;
  // A key of the API names its agent.
  const [, , apiAgent] = /^api:([^:]+):([^:]+):/.exec(key) ?? [];
  if (apiAgent !== undefined && (origin ?? "api") === "api")
    return [{ agentId: agent ?? apiAgent, origin: "api", key }];
  const named = (["channel", "schedule"] as const).find(
    (one) => key.startsWith(`${one}:`) && (origin ?? one) === one,
  );
  if (named)
    return (agent === undefined ? list.map(({ id }) => id) : [agent]).map((agentId) => ({
      agentId,
      origin: named,
      key,
    }));
  const agentId = agent ?? first.id;
  const inferred = origin ?? (key === "main" ? "main" : "hook");
  if (inferred !== "hook") return [{ agentId, origin: inferred, key }];
  const refs = (await store.sessions.listOfHooks({ agentId, key })).map(({ ref }) => ref);
  const shared =
    path === undefined && credential === undefined ? refs.find(({ via }) => !via) : undefined;
  if (shared) return [shared];
  return refs.filter(
    ({ via }) =>
      (path ?? via?.path) === via?.path && (credential ?? via?.credential) === via?.credential,
  );
}

async function findSession(deps: AdminDeps, name: SessionName): Promise<SessionRef> {
  const refs = await findCandidates(deps, name);
  const owners = refs.flatMap(({ via }) => (via ? [`${via.path} (${via.credential})`] : []));
  if (owners.length > 1) {
    const message = `several paths have a session with this key: name one by \`path\`, and by \`credential\` if that is not enough: ${owners.join(", ")}`;
    refuse(message);
  }
  for (const ref of refs)
    if (ref.origin === "main" || (await deps.store.sessions.get(ref))) return ref;
  throw new RouseError(unknownId("session", name.key));
}

/** Lists sessions, the last used first. */
export async function listSessions(
  { store }: AdminDeps,
  { agent: agentId, ...query }: PageQuery<Lists["sessions"]["of"]> & { agent?: string | undefined },
) {
  const { rows, ...page } = await searchPage(store, "sessions", { ...query, agentId }, ({ ref }) =>
    sessionId(ref),
  );
  return { sessions: rows.map(sessionView), ...page };
}

/** Renders a checkpoint without its summary, which is the input of its turn. */
const checkpointView = (checkpoint: Checkpoint) => ({
  ...pick(checkpoint, "turns", "left", "outside"),
  ...pickOrNull(checkpoint, "model", "usage"),
});

const turnView = (turn: TurnRecord) => ({
  ...pick(turn, "seq", "runId", "hook", "input", "messages"),
  at: iso(turn.at),
  checkpoint: turn.checkpoint ? checkpointView(turn.checkpoint) : null,
});

/**
 * Shows the newest turns and checkpoints of a session's history, oldest first; `next` is the `before` of those before them. For
 * the main session also the system events that wait for a heartbeat, and the last routes.
 * @throws RouseError `not_found`, or `usage` if several sessions have this name.
 */
export async function showSession(
  deps: AdminDeps,
  { limit, before, ...name }: SessionName & { limit: number; before?: number | undefined },
) {
  const { store } = deps;
  const ref = await findSession(deps, name);
  const list = (page: { limit: number; before?: number }) =>
    store.sessions.listTurns({ ...ref, ...page });
  const [session, newest] = await Promise.all([
    store.sessions.get(ref),
    readPage(
      { limit, before },
      async (page) => (await list(page)).toReversed(),
      ({ seq }) => String(seq),
    ),
  ]);
  const isMain = ref.origin === "main";
  const queued = isMain
    ? await store.systemEvents.listQueued({ agentId: ref.agentId, limit: 500 })
    : [];
  const routes = isMain ? await store.sessions.listLastRoutes(ref.agentId) : [];
  return {
    session: session ? sessionView(session) : unusedSession(ref),
    turns: newest.rows.toReversed().map(turnView),
    next: newest.next,
    queued: queued.map((event) => ({
      ...pick(event, "id", "source", "text", "failures"),
      at: iso(event.at),
    })),
    lastRoutes: routes.map(({ channel, to, at }) => ({ channel, to, at: iso(at) })),
  };
}

/** Forgets a session's history. Throws as `showSession`. */
export async function resetSession(deps: AdminDeps, name: SessionName): Promise<void> {
  const ref = await findSession(deps, name);
  await deps.store.commit((tx) => tx.sessions.clear(ref));
}

/** Deletes a session with its history, unless it is the main session. Throws as `showSession`. */
export async function deleteSession(deps: AdminDeps, name: SessionName): Promise<void> {
  const ref = await findSession(deps, name);
  if (ref.origin === "main")
    refuse("the main session cannot be deleted; reset it to forget its history");
  await deps.store.commit((tx) => tx.sessions.delete(ref));
}
