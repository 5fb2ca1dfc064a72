import type { Channel } from "../contract/channel.ts";
import type { LastRoute, ReplyTarget, Route, RouteDecision, Reads } from "../store/types.ts";

/** A channel of this snapshot. */
export interface LoadedChannel {
  id: string;
  channel: Channel;
}

type RecipientCheck = { ok: true; to: string } | { ok: false; message: string };

/** All channels of a snapshot, by id and alias. */
export type Channels = ReturnType<typeof createChannels>;

/** A run's request for a route, and the places to look for it. */
interface RouteRequest extends ReplyTarget {
  store: Reads;
  channels: Channels;
  /** The agent whose main session has the last routes. */
  agentId: string;
}

type FoundRoute = Exclude<RouteDecision, { status: "skipped" }>;
type Last = Omit<LastRoute, "agentId" | "at">;

const NO_LAST_ROUTE = "the owner has not written on any channel yet";

function noRoute(reason: string): FoundRoute {
  return { status: "no_route", reason };
}

function checkGivenRoute(id: string, to: string, channels: Channels): FoundRoute {
  const checked = channels.checkRecipient(id, to);
  if (!checked.ok)
    return noRoute(`the channel "${id}" cannot send to this recipient: ${checked.message}`);
  return { status: "route", route: { channel: id, to: checked.to } };
}

function stored({ channel, to, thread }: Last): FoundRoute {
  const route: Route = { channel, to };
  if (thread !== undefined) route.thread = thread;
  return { status: "route", route };
}

/** The first of the channels that takes the recipient. */
function firstThatTakes(
  candidates: readonly LoadedChannel[],
  to: string,
  channels: Channels,
): FoundRoute {
  const tried = candidates.map(({ id }) => checkGivenRoute(id, to, channels));
  const refusals = tried.flatMap((decision) =>
    decision.status === "route" ? [] : decision.reason,
  );
  const why = refusals.join("; ") || `${NO_LAST_ROUTE}, and not exactly one channel is configured`;
  return (
    tried.find(({ status }) => status === "route") ??
    noRoute(`${why}: name the \`channel\` of this recipient`)
  );
}

function byFallback(channels: Channels): FoundRoute {
  const { fallback } = channels;
  if (!fallback)
    return noRoute(
      `${NO_LAST_ROUTE}, and no configured channel is a fallback: name \`channel\` and \`to\``,
    );
  const { id, channel } = fallback;
  if (channel.defaultTo !== undefined) return checkGivenRoute(id, channel.defaultTo, channels);
  return noRoute(
    `${NO_LAST_ROUTE}, and the channel "${id}" has no default recipient: set its \`defaultTo\`, or name \`channel\` and \`to\``,
  );
}

/** Decides for `last`. A last route on a channel that is no longer configured does not count. */
function withoutChannel(
  to: string | undefined,
  lastRoutes: readonly Last[],
  channels: Channels,
): FoundRoute {
  const last = lastRoutes.find((route) => channels.get(route.channel) !== undefined);
  if (to === undefined) return last ? stored(last) : byFallback(channels);
  const channel = last && channels.get(last.channel);
  return firstThatTakes(
    channel ? [channel, ...channels.forRecipient] : channels.forRecipient,
    to,
    channels,
  );
}

function findReplyRoute(
  { channel, to }: ReplyTarget,
  lastRoutes: readonly Last[],
  channels: Channels,
): FoundRoute {
  // A mapping's template whose field is missing: the reply was meant for one person, not for the last one.
  if (to?.trim() === "")
    return noRoute(
      "`to` is empty, and the reply is not sent to another recipient: see what `to` is made of",
    );
  if (channel === LAST_CHANNEL) return withoutChannel(to, lastRoutes, channels);
  const named = channels.resolve(channel);
  if (!named) return noRoute("no channel of this name is known any more: name another one");
  const target = channels.get(named.id)?.channel;
  if (!target)
    return noRoute(
      `the channel "${named.id}" is not configured: add \`channels.${named.id}\` to the config`,
    );
  if (to !== undefined) return checkGivenRoute(named.id, to, channels);
  const last = lastRoutes.find((route) => route.channel === named.id);
  if (last) return stored(last);
  if (target.defaultTo !== undefined) return checkGivenRoute(named.id, target.defaultTo, channels);
  return noRoute(
    `the channel "${named.id}" has neither a last nor a default recipient: set its \`defaultTo\`, or name \`to\``,
  );
}

/**
 * Decides where a reply goes, before the model runs. A named recipient is the only one that it may go to: on the named
 * channel, or for `last` on the first channel that takes it of the last route's, the only configured one and the declared
 * fallback. Without a recipient it goes to the last one on the named channel, else to that channel's default; for `last`
 * to the last route, else to the default recipient of the fallback.
 */
export async function resolveRoute({
  store,
  channels,
  agentId,
  ...target
}: RouteRequest): Promise<FoundRoute> {
  return findReplyRoute(target, await store.sessions.listLastRoutes(agentId), channels);
}

/**
 * Finds out why replies can have no route with these channels, wherever the owner writes. `to` is null if it is known only
 * with the event; `ownerChannels` are those on which the owner can write, which makes them last routes. Undefined if there
 * may be a route; else the field to change and what is wrong.
 */
export function findRouteProblem(
  { channel, to }: { channel: string; to?: string | null },
  channels: Channels,
  ownerChannels: ReadonlySet<string>,
): { field: "channel" | "to"; message: string } | undefined {
  const target = to === undefined ? { channel } : { channel, to: to ?? "known later" };
  const checked =
    to === null
      ? {
          ...channels,
          checkRecipient: (_id: string, text: string) => ({ ok: true as const, to: text }),
        }
      : channels;
  const owned = channels.loaded.filter(({ id }) => ownerChannels.has(id));
  const lastRoutes: Last[][] = [[], ...owned.map(({ id }) => [{ channel: id, to: "the owner" }])];
  const decisions = lastRoutes.map((routes) => findReplyRoute(target, routes, checked));
  const [reason] = decisions.flatMap((decision) =>
    decision.status === "no_route" ? decision.reason : [],
  );
  if (reason === undefined || decisions.some(({ status }) => status === "route")) return undefined;
  const isAboutChannel =
    to === undefined || (channel !== LAST_CHANNEL && channels.resolve(channel)?.loaded !== true);
  return { field: isAboutChannel ? "channel" : "to", message: `replies have no route: ${reason}` };
}

/** A channel that is known by name, whether or not its plugin is loaded. */
export interface KnownChannel {
  id: string;
  aliases?: readonly string[];
}

/** The channel id for "wherever the owner was last": never the name of a channel. */
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

/** Returns the routes that are tried if there is no last route. Ids in `always` do not count as configured. */
function lastResorts(
  list: readonly LoadedChannel[],
  always: ReadonlySet<string>,
): { fallback: LoadedChannel | undefined; forRecipient: readonly LoadedChannel[] } {
  const configured = list.filter(({ id }) => !always.has(id));
  const only = configured.length === 1 ? configured : [];
  const declared = list.filter(({ channel }) => channel.fallback === true);
  const choice = [...only, ...declared];
  return {
    // The channel of replies that name no recipient while there is no last route: it has a default recipient of its own.
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
) {
  const list: LoadedChannel[] = [...loaded].map(([id, channel]) => ({ id, channel }));
  const ids = new Map<string, string>(
    [...known.map(({ id }) => id), ...loaded.keys()].map((id) => [id, id]),
  );
  for (const { id, aliases = [] } of known)
    for (const alias of aliases) if (!ids.has(alias)) ids.set(alias, id);
  ids.delete(LAST_CHANNEL);
  return Object.freeze({
    /** The id that a name or alias means, also for channels that are known but not configured; undefined if the name is unknown. */
    resolve(name: string): { id: string; loaded: boolean } | undefined {
      const id = ids.get(name.trim().toLowerCase());
      return id === undefined ? undefined : { id, loaded: loaded.has(id) };
    },
    get(id: string): LoadedChannel | undefined {
      const channel = loaded.get(id);
      return channel && { id, channel };
    },
    ...lastResorts(list, always),
    loaded: list,
    /** Ids and aliases of all known channels, for messages and "did you mean". */
    names: [...ids.keys()].toSorted(),
    checkRecipient: (id: string, to: string): RecipientCheck => check(loaded.get(id), to),
  });
}
