import type { LastRoute, Route, RouteDecision, Store } from "../store/types.ts";
import { LAST } from "./channels.ts";
import type { Channels, LoadedChannel } from "./types.ts";

export interface RouteRequest {
  store: Pick<Store, "lastRoutes">;
  channels: Channels;
  /** Whose main session's last routes count. */
  agentId: string;
  /** A channel's id or alias, or `last`. */
  channel: string;
  to?: string;
}

function noRoute(reason: string): RouteDecision {
  return { status: "no_route", reason };
}

function given(id: string, to: string, channels: Channels): RouteDecision {
  const checked = channels.checkRecipient(id, to);
  if (!checked.ok) return noRoute(`the channel "${id}" cannot send to this recipient: ${checked.message}`);
  return { status: "route", route: { channel: id, to: checked.to } };
}

function stored({ channel, to, thread }: LastRoute): RouteDecision {
  const route: Route = { channel, to };
  if (thread !== undefined) route.thread = thread;
  return { status: "route", route };
}

function byFallback(fallback: LoadedChannel | undefined, to: string | undefined, channels: Channels): RouteDecision {
  if (!fallback)
    return noRoute("the owner has not written on any channel yet, and no configured channel is a fallback: name `channel` and `to`");
  const target = to ?? fallback.channel.defaultTo;
  if (target !== undefined) return given(fallback.id, target, channels);
  return noRoute(
    `the owner has not written on any channel yet, and the fallback channel "${fallback.id}" has no default recipient: name \`channel\` and \`to\``,
  );
}

/**
 * Decides where a reply goes, before the model runs: a named channel with `to`, the last recipient there or its
 * default; for `last` the channel and recipient of the owner's last direct message, else the fallback channel.
 * A last route on a channel that is no longer configured does not count.
 */
export async function resolveRoute({ store, channels, agentId, channel, to }: RouteRequest): Promise<RouteDecision> {
  if (channel === LAST) {
    const routes = await store.lastRoutes(agentId);
    const last = routes.find((route) => channels.get(route.channel) !== undefined);
    if (!last) return byFallback(channels.fallback, to, channels);
    return to === undefined ? stored(last) : given(last.channel, to, channels);
  }
  const named = channels.resolve(channel);
  if (!named) return noRoute("no channel of this name is known any more");
  const { id } = named;
  const target = channels.get(id);
  if (!target) return noRoute(`the channel "${id}" is not configured: add \`channels.${id}\` to the config`);
  if (to !== undefined) return given(id, to, channels);
  const routes = await store.lastRoutes(agentId);
  const last = routes.find((route) => route.channel === id);
  if (last) return stored(last);
  const { defaultTo } = target.channel;
  if (defaultTo !== undefined) return given(id, defaultTo, channels);
  return noRoute(`nobody has written on the channel "${id}" yet and it has no default recipient: name \`to\``);
}
