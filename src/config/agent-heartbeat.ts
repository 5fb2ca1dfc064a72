import type { Config } from "./schema/index.ts";

export type HeartbeatSettings = Config["agents"]["defaults"]["heartbeat"];

/**
 * Returns the heartbeat of an agent: its own settings, then those of the defaults. An agent that says nothing of heartbeats, and
 * is not the first, has no instructions for them, so that it asks its model only if system events wait.
 */
export function getHeartbeat(
  { agents: { defaults, list } }: Config,
  agentId: string,
): HeartbeatSettings {
  const own = list.find(({ id }) => id === agentId)?.heartbeat;
  const isFirst = list.length === 0 || list[0]?.id === agentId;
  const { instructions, ...rest } = defaults.heartbeat;
  const common = instructions !== undefined && (isFirst || own) ? { ...rest, instructions } : rest;
  return { ...common, ...withoutUndefined(own ?? {}) };
}

/** Leaves out fields that are named without a value. */
function withoutUndefined<T extends object>(
  given: T,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
