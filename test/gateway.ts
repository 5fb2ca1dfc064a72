import { systemClock } from "../src/core/clock.ts";
import { createLogger } from "../src/core/log.ts";
import { createGateway as create, type Gateway } from "../src/gateway/gateway.ts";
import type { GatewayOptions } from "../src/gateway/resources.ts";
import type { Addresses } from "../src/gateway/types.ts";

type Options = Partial<GatewayOptions> & Pick<GatewayOptions, "cwd" | "env"> & { workers: boolean };

/** What a gateway under test has of the real world unless a test says otherwise. */
export const REAL = { clock: systemClock, fetch: globalThis.fetch };

/** A gateway as `rouse start` runs one: it listens, watches its files, and may have workers. It is silent. */
export interface StartedGateway extends Omit<Gateway, "start"> {
  start(): Promise<Addresses>;
}

export async function createGateway({ workers, ...options }: Options): Promise<StartedGateway> {
  const gateway = await create({ ...REAL, log: createLogger("silent"), print: () => undefined, ...options });
  return { ...gateway, start: () => gateway.start({ listen: true, workers, watch: true }) };
}
