import { afterEach, expect, it } from "vitest";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { createWorld, type World } from "./world.ts";

const SECRET = "outside-words-4711";
let world: World;
let provider: Provider;
afterEach(async () => {
  await world.stop();
  await provider.close();
});

async function talk(retention: number | string): Promise<string> {
  provider = await createProvider();
  world = await createWorld({ config: { ...modelConfig(provider), hooks: { retention } } });
  for (const message of [SECRET, "and now?"]) {
    const { body } = await world.post("/hooks/agent", {
      message,
      sessionKey: "hook:talk",
      wakeMode: "next-heartbeat",
    });
    await world.until(
      async () => (await world.get(`/hooks/runs/${body.runId}`)).body.run.status === "succeeded",
    );
  }
  return provider.text(provider.requests[1] as Provider["requests"][number]);
}

it("with hooks.retention 0 the history keeps the replies and nothing of what hooks said", async () => {
  const second = await talk(0);
  expect(second).not.toContain(SECRET);
  expect(second).toContain("[no longer kept]");
  expect(second).toContain("fine");
});

it("otherwise a later turn of the session sees what hooks said before", async () => {
  expect(await talk("3d")).toContain(SECRET);
});
