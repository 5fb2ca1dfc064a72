import { StoredList, type StoredListDeps } from "../store/stored-list.ts";
import type { Ms } from "../store/types.ts";

/** The agent that people have chosen for a conversation of a channel. */
interface AgentChoice {
  /** The result of `getPlace`. */
  place: string;
  agentId: string;
  at: Ms;
}

/** The conversation that a choice is for: that with a person, or a room with its threads. `personId`: that of a linked person. */
export function getPlace(
  channel: string,
  {
    direct,
    from,
    to,
    personId,
  }: { direct: boolean; from: string; to: string; personId?: string | undefined },
): string {
  if (direct && personId !== undefined) return JSON.stringify(["person", personId]);
  return JSON.stringify(direct ? [channel, "direct", from] : [channel, "room", to]);
}

/** The most choices that are kept: the oldest goes. */
const MAX_CHOICES = 5000;

/** Creates the choices with `/agent` that are kept in a store. All gateways on one database have the same. */
export function createAgentChoices(deps: StoredListDeps) {
  const stored = new StoredList<AgentChoice>("people.agents", deps);
  return {
    /** Returns the id of the agent that was chosen for a place, if one was. */
    get: async (place: string): Promise<string | undefined> =>
      (await stored.readLatest()).find((choice) => choice.place === place)?.agentId,
    /** Keeps a choice, or with undefined takes it back. */
    set: (place: string, agentId: string | undefined) =>
      stored.change<void>((list) => {
        const others = list.filter((choice) => choice.place !== place);
        const added = agentId === undefined ? [] : [{ place, agentId, at: deps.clock.now() }];
        return { list: [...others, ...added].slice(-MAX_CHOICES), result: undefined };
      }),
  };
}
