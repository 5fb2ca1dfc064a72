import { channelSession } from "../sessions/keys.ts";
import type { RunRecord, SessionRef } from "../store/types.ts";

/** The place of a room's session: where its answers go. */
interface RoomPlace {
  channel: string;
  to: string;
  thread?: string | undefined;
}

/** The session of a room without its threads, if a session is one of that room; else the session itself. */
function toRoom(session: SessionRef, { channel, to, thread }: RoomPlace): SessionRef {
  const room = { from: "", to, direct: false };
  const isRoom =
    session.origin === "channel" &&
    channelSession(session.agentId, channel, { ...room, thread }).key === session.key;
  return isRoom ? channelSession(session.agentId, channel, room) : session;
}

/**
 * Returns the conversation whose notes a run sees and adds to: the session, so that nothing is known in one conversation that
 * was said in another. All threads of a room have the notes of the room. A schedule that was asked for in a conversation has
 * the notes of that conversation; one of the config has its own, since its answers may go anywhere.
 */
export function getMemoryScope({ kind, spec }: Pick<RunRecord, "kind" | "spec">): SessionRef {
  const asked = kind === "schedule" ? spec.schedule?.asked : undefined;
  if (asked) return asked.route ? toRoom(asked.session, asked.route) : asked.session;
  const { session, channel, to, incoming } = spec;
  return incoming && to !== undefined
    ? toRoom(session, { channel, to, thread: incoming.thread })
    : session;
}
