import { startModel, type Model } from "../platform/model.ts";
import { modelConfig } from "../e2e/provider.ts";
import { createWorld, type World, type WorldOptions } from "../e2e/world.ts";

export interface ModelWorld extends World {
  model: Model;
  close(): Promise<void>;
}

/** A gateway with a model of its own. */
export async function createModelWorld(options: WorldOptions = {}): Promise<ModelWorld> {
  const model = await startModel();
  const world = await createWorld({
    ...options,
    config: { ...modelConfig(model), ...options.config },
  });
  return {
    ...world,
    model,
    async close() {
      await world.stop();
      await model.close();
    },
  };
}

/** A gateway with two agents on a model of its own. Documents may have 1 MB. */
export async function createAgentsWorld(): Promise<ModelWorld> {
  return createModelWorld({
    config: {
      agents: {
        defaults: { model: "local/big", heartbeat: { every: 0 } },
        list: [{ id: "ops", name: "Operations" }, { id: "sales" }],
      },
      platform: { knowledge: { fileMb: 1 } },
    },
  });
}
