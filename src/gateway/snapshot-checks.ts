import { unknownToAgents } from "../config/checks.ts";
import type { LoadedConfig } from "../config/load.ts";
import type { Config } from "../config/schema/index.ts";
import { didYouMean } from "../config/suggest.ts";
import { createAddressList, isLoopback } from "../core/http/address.ts";
import { RouseError, type Issue } from "../core/errors.ts";
import { LAST_CHANNEL, findRouteProblem } from "../delivery/channels.ts";
import type { Snapshot } from "../intake/types.ts";
import { searchModelIssues } from "../knowledge/models/configured.ts";
import type { LoadedPlugins } from "../plugin/host.ts";
import { findStoreDriver, storeUrl } from "../store/open.ts";
import type { buildAgents } from "../turns/channel/build-agents.ts";
import { telemetryIssues } from "../telemetry/open.ts";

/** The targets that schedules of the config name, each with its path. */
const listTargets = ({ agents }: Config) =>
  agents.list.flatMap(({ schedules }, agent) =>
    schedules.flatMap(({ deliver }, index) =>
      deliver ? [{ ...deliver, path: `agents.list[${agent}].schedules[${index}].deliver` }] : [],
    ),
  );

function findChannelProblem(
  name: string,
  { channels, issues, incomplete }: LoadedPlugins,
  config: Config,
): string | undefined {
  const found = channels.resolve(name);
  if (found?.loaded || name === LAST_CHANNEL) return undefined;
  // A channel whose plugin or section has a problem is not there because of it.
  if (!found)
    return incomplete ? undefined : `names no channel.${didYouMean(name, channels.names)}`;
  const { id } = found;
  if (issues.some(({ path }) => path === `channels.${id}` || path.startsWith(`channels.${id}.`)))
    return undefined;
  const section = config.channels[id] as { enabled?: unknown } | undefined;
  return section?.enabled === false
    ? `the channel "${id}" is turned off: take \`enabled: false\` out of \`channels.${id}\`, or name another channel`
    : `the channel "${id}" is not configured: add \`channels.${id}\` to the config, or name another channel`;
}

/** Returns the schedules whose reply is for a channel that is not there: it could never be sent. */
const findScheduleChannelIssues = (config: Config, plugins: LoadedPlugins): Issue[] =>
  listTargets(config).flatMap(({ channel, path }) => {
    const message = findChannelProblem(channel, plugins, config);
    return message === undefined ? [] : [{ path: `${path}.channel`, message }];
  });

/** Returns the problem of the store's address, if no driver takes it. */
async function findStoreIssues({ config, stateDir }: LoadedConfig): Promise<readonly Issue[]> {
  try {
    await findStoreDriver(storeUrl(config.store.url, stateDir));
    return [];
  } catch (error) {
    if (!(error instanceof RouseError)) throw error;
    return error.issues ?? [];
  }
}

const findProxyIssues = ({ gateway }: Config): Issue[] =>
  createAddressList(gateway.trustedProxies).wrong.map((entry) => ({
    path: "gateway.trustedProxies",
    message: `"${entry.slice(0, 60)}" is no address or CIDR range`,
  }));

interface CheckedParts {
  plugins: LoadedPlugins;
  agents: ReturnType<typeof buildAgents>;
  hooks: { budgets: Snapshot["budgets"]; issues: readonly Issue[] };
}

/** Finds the problems of the parts of a snapshot, and of what they have to do with each other. */
export async function findIssues(
  loaded: LoadedConfig,
  { plugins, agents, hooks }: CheckedParts,
): Promise<Issue[]> {
  const { config } = loaded;
  const hasBudget = hooks.budgets.all.some(({ limits }) => limits.budget);
  return [
    ...plugins.issues,
    ...telemetryIssues(config),
    ...agents.runtimeIssues,
    ...searchModelIssues(config, agents.models.kinds),
    ...agents.issues,
    ...findScheduleChannelIssues(config, plugins),
    ...findProxyIssues(config),
    ...hooks.issues,
    ...(await findStoreIssues(loaded)),
    ...(hasBudget ? agents.findUnpriced() : []),
  ];
}

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

/** Returns the heartbeat and the schedules whose replies can have no route. Without a recipient, `last` follows the owner. */
function warnOfRoutes({ config, channels, rooms }: WarnedParts): Issue[] {
  const { channel: usual, to: recipient } = config.agents.defaults.heartbeat;
  const heartbeat = { channel: usual, to: recipient, path: "agents.defaults.heartbeat" };
  return [heartbeat, ...listTargets(config)].flatMap(({ channel, to, path }) => {
    if (channel === LAST_CHANNEL && to === undefined) return [];
    const target = { channel, ...(to !== undefined && { to }) };
    const problem = findRouteProblem(target, channels, rooms.ownerChannels);
    return problem ? [{ path: `${path}.${problem.field}`, message: problem.message }] : [];
  });
}

/** Returns what is allowed in a config and probably not meant, as far as the parts of a snapshot show it. */
export function getWarnings(parts: WarnedParts): Issue[] {
  const { config, mappings } = parts;
  const { gateway, hooks, agents } = config;
  const isOpen = !isLoopback(gateway.host) && gateway.trustedProxies.length === 0;
  return [
    ...warnOfUnnamedTools(parts),
    ...warnOfRoutes(parts),
    ...mappings.mappings.flatMap(({ id, at }) =>
      unknownToAgents(`${at}.tools`, mappings.settings(id)?.tools ?? [], agents.list),
    ),
    ...(isOpen
      ? [
          {
            path: "gateway.host",
            message:
              "the gateway listens beyond this machine without TLS; put a proxy before it and name that in gateway.trustedProxies",
          },
        ]
      : []),
    ...(hooks.enabled === false
      ? [{ path: "hooks.enabled", message: "hooks are off: every hook is answered 404" }]
      : []),
  ];
}
