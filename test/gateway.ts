import { systemClock } from "../src/core/clock.ts";
import { createLogger } from "../src/core/log.ts";
import { openGateway as create, type RunningGateway } from "../src/gateway/gateway.ts";
import type { ResourceOptions } from "../src/gateway/resources.ts";
import type { Addresses } from "../src/gateway/types.ts";

type Options = Partial<ResourceOptions> &
  Pick<ResourceOptions, "cwd" | "env"> & { workers: boolean };

/** The real clock and network, for tests that do not replace them. */
export const REAL = { clock: systemClock, fetch: globalThis.fetch };

/** A gateway as `rouse start` runs one: it listens, watches its files, and may have workers. It is silent. */
export interface StartedGateway extends Omit<RunningGateway, "start"> {
  start(): Promise<Addresses>;
}

export async function createGateway({ workers, ...options }: Options): Promise<StartedGateway> {
  const gateway = await create({
    ...REAL,
    log: createLogger("silent"),
    print: () => undefined,
    ...options,
  });
  return { ...gateway, start: () => gateway.start({ listen: true, workers, watch: true }) };
}
