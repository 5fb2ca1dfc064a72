import type { Config } from "../config/schema/index.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { LAST_CHANNEL, findRouteProblem, type Channels } from "../delivery/channels.ts";
import type { Snapshot } from "../intake/types.ts";
import type { LoadedPlugins } from "../plugin/host.ts";

/** The targets that schedules of the config name, each with its path. */
const listTargets = ({ agents }: Config) =>
  agents.list.flatMap(({ schedules }, agent) =>
    schedules.flatMap(({ deliver }, index) =>
      deliver ? [{ ...deliver, path: `agents.list[${agent}].schedules[${index}].deliver` }] : [],
    ),
  );

function findChannelProblem(
  name: string,
  { channels, issues, incomplete }: Pick<LoadedPlugins, "channels" | "issues" | "incomplete">,
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
export const findScheduleChannelIssues = (config: Config, plugins: LoadedPlugins): Issue[] =>
  listTargets(config).flatMap(({ channel, path }) => {
    const message = findChannelProblem(channel, plugins, config);
    return message === undefined ? [] : [{ path: `${path}.channel`, message }];
  });

/** Returns the schedules whose replies can have no route. Without a recipient, `last` follows the owner. */
export function warnOfSchedules(
  config: Config,
  channels: Channels,
  { hasOwner }: Pick<Snapshot["rooms"], "hasOwner">,
): Issue[] {
  return listTargets(config).flatMap(({ channel, to, path }) => {
    if (channel === LAST_CHANNEL && to === undefined) return [];
    const target = { channel, ...(to !== undefined && { to }) };
    const problem = findRouteProblem(target, channels, hasOwner);
    return problem ? [{ path: `${path}.${problem.field}`, message: problem.message }] : [];
  });
}
