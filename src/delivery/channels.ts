import type { Channel } from "../contract/channel.ts";
import type { Channels, LoadedChannel, RecipientCheck } from "./types.ts";

/** A channel that is known by name, whether or not its plugin is loaded. */
export interface KnownChannel {
  id: string;
  aliases?: readonly string[];
}

/** What a request says for "wherever the owner was last": never the name of a channel. */
export const LAST_CHANNEL = "last";

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

/** Where replies go when no last route says it. Ids in `always` do not count as configured. */
function lastResorts(
  list: readonly LoadedChannel[],
  always: ReadonlySet<string>,
): Pick<Channels, "fallback" | "forRecipient"> {
  const configured = list.filter(({ id }) => !always.has(id));
  const only = configured.length === 1 ? configured : [];
  const declared = list.filter(({ channel }) => channel.fallback === true);
  const choice = [...only, ...declared];
  return {
    fallback: choice.find(({ channel }) => channel.defaultTo !== undefined) ?? choice[0],
    // Beside a configured channel, one that is always there takes no message that is meant for somebody else.
    forRecipient: configured.length === 0 ? list : choice.filter(({ id }) => !always.has(id)),
  };
}

/**
 * The channels of a snapshot. `known` are those that have a name, `loaded` those that can send, `always` the ids of those
 * that are there without a section of the config. Names are matched in lower case; if two want the same alias the first
 * has it, and an id always means itself.
 */
export function createChannels(
  known: readonly KnownChannel[],
  loaded: ReadonlyMap<string, Channel>,
  always: ReadonlySet<string> = new Set(),
): Channels {
  const list: LoadedChannel[] = [...loaded].map(([id, channel]) => ({ id, channel }));
  const ids = new Map<string, string>(
    [...known.map(({ id }) => id), ...loaded.keys()].map((id) => [id, id]),
  );
  for (const { id, aliases = [] } of known)
    for (const alias of aliases) if (!ids.has(alias)) ids.set(alias, id);
  ids.delete(LAST_CHANNEL);
  return Object.freeze({
    resolve(name: string) {
      const id = ids.get(name.trim().toLowerCase());
      return id === undefined ? undefined : { id, loaded: loaded.has(id) };
    },
    get(id: string) {
      const channel = loaded.get(id);
      return channel && { id, channel };
    },
    ...lastResorts(list, always),
    loaded: list,
    names: [...ids.keys()].toSorted(),
    checkRecipient: (id: string, to: string) => check(loaded.get(id), to),
  });
}
