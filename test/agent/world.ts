import { createWorld, type World, type WorldOptions } from "../e2e/world.ts";
import { startVendor, VENDORS, type Handler, type ModelServer, type Vendor } from "./vendors.ts";

/** A gateway whose agent asks a model server. */
export interface ModelWorld extends World {
  model: ModelServer;
  vendor: Vendor;
  /** Runs one turn and returns its run. */
  run(more?: object): Promise<{
    id: string;
    status: string;
    reply: string;
    warnings: string[];
    attempts: number;
  }>;
}

interface ModelWorldOptions extends Omit<WorldOptions, "config"> {
  vendor?: Vendor;
  handler?: Handler;
  /** More of the config: `agents.defaults` is added to what is there. */
  config?: { agents?: { defaults?: object }; [section: string]: unknown };
  /** More of the provider. */
  provider?: object;
  /** USD per million tokens, by model. */
  prices?: object;
  agent?: object;
}

/** Creates a gateway with the agent `ops`, and the model server that answers it. */
export async function createModelWorld({
  vendor = VENDORS[0]!,
  handler,
  config: { agents = {}, ...config } = {},
  provider = {},
  prices = {},
  agent = {},
  ...options
}: ModelWorldOptions = {}): Promise<ModelWorld> {
  const model = await startVendor(vendor);
  if (handler) model.handler = handler;
  const local = { type: vendor.type, baseUrl: model.baseUrl, apiKey: "k-0123456789", ...provider };
  const world = await createWorld({
    ...options,
    config: {
      models: { providers: { local }, prices },
      agents: {
        defaults: { model: "local/big", heartbeat: { every: 0 }, ...agents.defaults },
        list: [{ id: "ops", ...agent }],
      },
      ...config,
    },
  }).catch(async (error: unknown) => {
    await model.close();
    throw error;
  });
  const { stop } = world;
  return Object.assign(world, {
    model,
    vendor,
    run: async (more: object = {}) =>
      world.endedRun(await world.orderRun({ message: "Go.", ...more })),
    async stop() {
      await stop();
      await model.close();
    },
  });
}
