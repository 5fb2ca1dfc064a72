import { startModel, type Model } from "../platform/model.ts";
import { createWorld, type World } from "../e2e/world.ts";

export interface ModelWorld extends World {
  model: Model;
  close(): Promise<void>;
}

/** A gateway with two agents on a model of its own. Documents may have 1 MB. */
export async function createModelWorld(): Promise<ModelWorld> {
  const model = await startModel();
  const world = await createWorld({
    config: {
      models: {
        providers: {
          local: {
            type: "openai-compatible",
            baseUrl: model.url,
            apiKey: "provider-key-0123456789",
          },
        },
      },
      agents: {
        defaults: { model: "local/big", heartbeat: { every: 0 } },
        list: [{ id: "ops", name: "Operations" }, { id: "sales" }],
      },
      platform: { knowledge: { fileMb: 1 } },
    },
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
