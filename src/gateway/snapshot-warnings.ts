import { unknownToAgents } from "../config/checks.ts";
import { isLoopback } from "../core/address.ts";
import type { Issue } from "../core/errors.ts";
import { LAST_CHANNEL, findRouteProblem } from "../delivery/channels.ts";
import type { Snapshot } from "../intake/types.ts";
import { warnOfSchedules } from "./schedule-checks.ts";

interface WarnedParts extends Pick<Snapshot, "config" | "mappings" | "channels" | "rooms"> {
  /** The config as it is written, without defaults. */
  written: unknown;
}

/** Warns of tools that vanish in hook runs, since nothing names them there. `hooks.tools: []` says that it is meant. */
function warnOfUnnamedTools({ config, mappings, written }: WarnedParts): Issue[] {
  const { hooks } = (written ?? {}) as { hooks?: { tools?: unknown } };
  const isNamed =
    hooks?.tools !== undefined ||
    mappings.mappings.some(({ id }) => mappings.settings(id)?.tools !== undefined);
  const agents = config.agents.list.filter(({ tools }) =>
    tools.some((pattern) => !pattern.startsWith("!")),
  );
  if (config.hooks.enabled === false || isNamed || agents.length === 0) return [];
  const having = agents.map(({ id }) => `"${id}"`).join(", ");
  const example = JSON.stringify(agents[0]?.tools);
  return [
    {
      path: "hooks.tools",
      message: `hook runs and heartbeats are offered none of the tools of ${having}: name those that they may use, as in hooks.tools: ${example}, or in a mapping's tools; [] says that none is meant`,
    },
  ];
}

/** Returns what is allowed in a config and probably not meant, as far as the parts of a snapshot show it. */
export function getWarnings(parts: WarnedParts): Issue[] {
  const { config, mappings, channels, rooms } = parts;
  const warnings = warnOfUnnamedTools(parts);
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
