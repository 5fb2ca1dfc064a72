import type { IncomingMessage } from "../contract/channel.ts";
import type { EventRecord, FencingToken, RunAction, RunRecord, RunSpec, Store } from "../store/types.ts";
import type { ActionContext } from "../runs/types.ts";

/** What becomes of a message that only the store can tell about. */
export interface StoredPlaceDeps {
  store: Pick<Store, "get" | "list" | "commit">;
  context: Pick<ActionContext, "config">;
  fencingToken: FencingToken | undefined;
}

export const NOT_ADDRESSED = "the message is not addressed to the agent";
const REPLACED = "an edit: it replaced the text of a message whose turn had not begun";
const TOO_LATE = "an edit of an earlier message: the turn of that message has begun, so it keeps its text";
/** Messages of a session that wait at the same time, among which one that was edited is looked for. */
const MAX_QUEUED = 200;

const isWaiting = ({ status, startedAt }: RunRecord): boolean => status === "queued" && startedAt === undefined;

/** Finds the run of a message, if its turn has not begun. */
async function findWaiting(edits: string, { session, channel, incoming }: RunSpec, store: StoredPlaceDeps["store"]) {
  const queued = await store.list("runs", { status: "queued", sessionKey: session.key, limit: MAX_QUEUED });
  return queued.find((run) => {
    const { incoming: before, command } = run.spec;
    const isIt = before?.replyTo === edits && before.from === incoming?.from && run.spec.channel === channel;
    return isIt && command === undefined && run.spec.session.agentId === session.agentId && isWaiting(run);
  });
}

/** Replaces the text of a message whose turn has not begun, and what comes with it. */
async function applyEdit(edits: string, { spec }: RunAction, { store, fencingToken }: StoredPlaceDeps): Promise<Partial<EventRecord>> {
  const run = spec.command === undefined ? await findWaiting(edits, spec, store) : undefined;
  if (!run) return { reason: TOO_LATE };
  const { unread: _before, ...kept } = run.spec;
  const changed: RunSpec = { ...kept, input: spec.input, ...(spec.unread && { unread: spec.unread }) };
  await store.commit((tx) => tx.update("run", run.id, { spec: changed }), fencingToken);
  // The turn may have begun meanwhile.
  const now = await store.get("run", run.id);
  return now && isWaiting(now) ? { outcome: "accepted", actions: [], reason: REPLACED } : { reason: TOO_LATE };
}

/** Whether the agent has answered in a message's thread, and threads are followed. */
async function isFollowed({ spec }: RunAction, { store, context }: StoredPlaceDeps): Promise<boolean> {
  if (!context.config.threads.follow) return false;
  return (await store.list("turns", { ...spec.session, limit: 1 })).length > 0;
}

/** Decides about a message that would be a turn: an edit replaces another message, and not every message of a thread is for the agent. */
export async function checkStoredPlace(
  { edits, addressed }: IncomingMessage,
  checked: Partial<EventRecord>,
  deps: StoredPlaceDeps,
): Promise<Partial<EventRecord>> {
  const [action] = checked.actions ?? [];
  if (action?.kind !== "run") return checked;
  if (addressed === false && !(await isFollowed(action, deps))) return { reason: NOT_ADDRESSED };
  return edits === undefined ? checked : applyEdit(edits, action, deps);
}
