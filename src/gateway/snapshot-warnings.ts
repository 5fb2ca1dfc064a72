import { unknownToAgents } from "../config/checks.ts";
import { isLoopback } from "../core/address.ts";
import type { Issue } from "../core/errors.ts";
import { LAST_CHANNEL } from "../delivery/channels.ts";
import { findRouteProblem } from "../delivery/last-route.ts";
import type { Snapshot } from "../intake/types.ts";
import { warnOfSchedules } from "./schedule-checks.ts";

type WarnedParts = Pick<Snapshot, "config" | "mappings" | "channels" | "rooms">;

/** Returns what is allowed in a config and probably not meant, as far as the parts of a snapshot show it. */
export function getWarnings({ config, mappings, channels, rooms }: WarnedParts): Issue[] {
  const warnings: Issue[] = [];
  const { channel, to } = config.agents.defaults.heartbeat;
  const heartbeat =
    channel === LAST_CHANNEL && to === undefined
      ? undefined
      : findRouteProblem({ channel, ...(to !== undefined && { to }) }, channels, rooms.hasOwner);
  if (heartbeat)
    warnings.push({
      path: `agents.defaults.heartbeat.${heartbeat.field}`,
      message: heartbeat.message,
    });
  warnings.push(...warnOfSchedules(config, channels, rooms));
  for (const { id, at } of mappings.mappings)
    warnings.push(
      ...unknownToAgents(`${at}.tools`, mappings.settings(id)?.tools ?? [], config.agents.list),
    );
  if (!isLoopback(config.gateway.host) && config.gateway.trustedProxies.length === 0) {
    warnings.push({
      path: "gateway.host",
      message:
        "the gateway listens beyond this machine without TLS; put a proxy before it and name that in gateway.trustedProxies",
    });
  }
  if (config.hooks.enabled === false)
    warnings.push({ path: "hooks.enabled", message: "hooks are off: every hook is answered 404" });
  return warnings;
}
