import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { createCollector } from "./collector.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SENDER = { traceparent: `00-${TRACE}-00f067aa0ba902b7-01`, tracestate: "shop=abc" };

describePostgres("traces over several gateways", () => {
  let schema: Schema | undefined;
  let provider: Provider | undefined;
  let worlds: World[] = [];
  let dirs: string[] = [];
  afterEach(async () => {
    await Promise.all(worlds.splice(0).map((world) => world.stop()));
    for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
    await provider?.close();
    await schema?.drop();
  });

  it("a run is in the trace of its hook, whichever gateway executes it, and also after that one has stopped", async () => {
    const collector = await createCollector();
    const home = (schema = newSchema());
    const model = (provider = await createProvider());
    const open = async (serviceName: string, workers: boolean): Promise<World> => {
      const dir = mkdtempSync(join(tmpdir(), "rouse-traces-"));
      dirs.push(dir);
      const config = {
        store: { url: home.url },
        telemetry: { otlp: { url: collector.url, serviceName } },
        hooks: { token: TOKEN },
        ...modelConfig(model),
      };
      const world = await createWorld({ dir, config, workers });
      worlds.push(world);
      return world;
    };
    const stop = async (world: World): Promise<void> => {
      worlds = worlds.filter((one) => one !== world);
      await world.stop();
    };
    const front = await open("front", false);
    const { body } = await front.post(
      "/hooks/agent",
      { message: "hi", deliver: false, wakeMode: "next-heartbeat" },
      SENDER,
    );
    await stop(front);
    const back = await open("back", true);
    await back.until(
      async () =>
        (await back.admin(`/admin/v1/runs/${body.runId}`)).body.run.status === "succeeded",
    );
    expect((await back.admin(`/admin/v1/runs/${body.runId}`)).body.run.traceId).toBe(TRACE);
    await stop(back);
    const [intake, run, chat] = [
      collector.one("POST /hooks/agent"),
      collector.one("invoke_agent main"),
      collector.one("chat big"),
    ];
    expect(intake).toMatchObject({
      service: "front",
      traceId: TRACE,
      parentId: "00f067aa0ba902b7",
      state: "shop=abc",
    });
    expect(run).toMatchObject({
      service: "back",
      traceId: TRACE,
      parentId: intake.spanId,
      state: "shop=abc",
    });
    expect(chat).toMatchObject({ service: "back", traceId: TRACE, parentId: run.spanId });
  });
});
