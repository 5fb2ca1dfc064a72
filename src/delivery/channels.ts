import type { Channel } from "../plugin/api.ts";
import type { Channels, LoadedChannel, RecipientCheck } from "./types.ts";

/** A channel that is known by name, whether or not its plugin is loaded. */
export interface KnownChannel {
  id: string;
  aliases?: readonly string[];
}

/** What a request says for "wherever the owner was last": never the name of a channel. */
export const LAST = "last";

function check(channel: Channel | undefined, to: string): RecipientCheck {
  const trimmed = to.trim();
  if (trimmed === "") return { ok: false, message: "must not be blank" };
  if (!channel?.parseRecipient) return { ok: true, to: trimmed };
  try {
    return channel.parseRecipient(trimmed);
  } catch {
    return { ok: false, message: "the channel could not read it" };
  }
}

/**
 * The channels of a snapshot. `known` are those that have a name, `loaded` those that can send. Names are matched in
 * lower case; where two want the same alias the first has it, and an id always means itself.
 */
export function createChannels(known: readonly KnownChannel[], loaded: ReadonlyMap<string, Channel>): Channels {
  const list: LoadedChannel[] = [...loaded].map(([id, channel]) => ({ id, channel }));
  const ids = new Map<string, string>([...known.map(({ id }) => id), ...loaded.keys()].map((id) => [id, id]));
  for (const { id, aliases = [] } of known) for (const alias of aliases) if (!ids.has(alias)) ids.set(alias, id);
  ids.delete(LAST);
  return Object.freeze({
    resolve(name: string) {
      const id = ids.get(name.trim().toLowerCase());
      return id === undefined ? undefined : { id, loaded: loaded.has(id) };
    },
    get(id: string) {
      const channel = loaded.get(id);
      return channel && { id, channel };
    },
    fallback: list.find(({ channel }) => channel.fallback === true),
    loaded: list,
    names: [...ids.keys()].toSorted(),
    checkRecipient: (id: string, to: string) => check(loaded.get(id), to),
  });
}
