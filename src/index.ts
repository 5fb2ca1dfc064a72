/** The library: a gateway inside another program. Nothing of the process is used but what the options leave out. */
import type { ConfigInput } from "./config/schema/index.ts";
import { systemClock } from "./core/clock.ts";
import { RouseError } from "./core/errors.ts";
import { createReporter, createHostLogger } from "./gateway/library.ts";
import { openGateway as create } from "./gateway/gateway.ts";
import type { Gateway, GatewayOptions } from "./gateway/types.ts";

export type { ConfigInput as Config } from "./config/schema/index.ts";
export { RouseError, type ErrorCode, type Issue } from "./core/errors.ts";
export type * from "./gateway/types.ts";
export type * from "./contract/channel.ts";
export { definePlugin, type Plugin } from "./contract/define.ts";
export type * from "./contract/kinds.ts";

/** Marks a config, so that an editor knows its fields. Returns it as it is. */
export function defineConfig(config: ConfigInput): ConfigInput {
  return config;
}

/**
 * Creates a gateway. It accepts hooks from now on, and does everything else once it is started.
 * @throws RouseError `config_invalid` with all problems of the config, `store_locked` if another gateway has the state folder.
 */
export async function createGateway(options: GatewayOptions = {}): Promise<Gateway> {
  const { config, configFile, plugins, stateDir, print, log } = options;
  if (config !== undefined && configFile !== undefined)
    throw new RouseError({
      code: "usage",
      message: "createGateway takes `config` or `configFile`: leave one of them out",
    });
  const { logger, setLevel } = createHostLogger(log);
  const reporter = createReporter((event, error) =>
    logger.warn({ event, err: error }, "a listener of the gateway failed"),
  );
  const { fetch, receive, start, stop, reload, status } = await create({
    ...(config && { config }),
    ...(configFile !== undefined && { configFile }),
    ...(plugins && { plugins }),
    ...(stateDir !== undefined && { stateDir }),
    ...(print && { print }),
    cwd: options.cwd ?? process.cwd(),
    clock: options.clock ?? systemClock,
    fetch: options.fetch ?? globalThis.fetch,
    env: options.env ?? process.env,
    log: logger,
    setLogLevel: setLevel,
    reporter,
  });
  return { fetch, receive, start, stop, reload, status, on: reporter.on };
}
