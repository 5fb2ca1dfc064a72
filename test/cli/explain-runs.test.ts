import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Explanation } from "../../src/operate/records/explain.ts";
import { createMcpWorld } from "../agent/mcp.ts";
import { roomsPlugin } from "../e2e/rooms.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { createCli, type CliWorld } from "./world.ts";

let cli: CliWorld;
let world: World;
beforeEach(async () => {
  cli = await createCli();
});
afterEach(async () => {
  await world.stop();
  await cli.close();
});

describe("rouse explain shows what came of an event:", () => {
  it("tool calls with arguments and results, tokens, the reply, and its delivery with message ids", async () => {
    const server = {
      command: process.execPath,
      args: [join(import.meta.dirname, "../agent/mcp-server.mjs")],
    };
    const mapping = {
      id: "town.visit",
      match: { path: "town" },
      messageTemplate: "How is {{town}}?",
      wakeMode: "next-heartbeat",
      deliver: true,
      channel: "rooms",
      to: "ops",
    };
    world = await createMcpWorld(
      { town: server },
      (call) =>
        call === 0
          ? { tool: "town__weather", input: { town: "Bath\u001b[31m" } }
          : { text: "Take a coat." },
      {
        dir: cli.dir,
        files: { "plugins/rooms.ts": roomsPlugin("rooms") },
        config: {
          hooks: { tools: ["town.*"], mappings: [mapping] },
          channels: { rooms: { folder: cli.dir } },
        },
      },
    );
    const { eventId } = (await world.post("/hooks/town", { town: "Bath" })).body as {
      eventId: string;
    };
    const { runs } = await world.until(async () => {
      const found = await cli.explain(eventId);
      return found.runs[0]?.delivery?.status === "delivered" && found;
    });
    const [{ run, steps, delivery } = {}] = runs;
    expect(run).toMatchObject({
      status: "succeeded",
      reply: "Take a coat.",
      mapping: "town.visit",
    });
    expect(steps?.[0]?.calls).toMatchObject([
      { tool: "town.weather", state: "done", input: { town: "Bath\u001b[31m" } },
    ]);
    const tokens = steps?.reduce(
      (sum, { usage }) => sum + (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0),
      0,
    );
    expect(run?.usage?.totalTokens).toBe(tokens);
    expect(delivery).toMatchObject({
      status: "delivered",
      channel: "rooms",
      to: "ops",
      messageIds: ["m-12"],
    });
    const { out } = await cli.rouse(`explain ${eventId}`);
    expect(out).toMatch(
      /\n {2}call town\.weather: done, .*\n {4}arguments: \{"town":"Bath\\u001b\[31m"\}\n/m,
    );
    expect(out).toContain("Rain in Bath");
    expect(out).toMatch(new RegExp(`\\ntokens +${tokens}\\n`));
    expect(out).toMatch(/\nstep 1: .*\d+ in.*\d+ out/);
    expect(out).toContain(`delivered, rooms ops (${delivery?.id})`);
    expect(out).toMatch(/\nmessages +m-12\n/);
    expect(out).toContain("\nreply\n  Take a coat.\n");
    // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
    expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);
  });

  it("the config that made one run of events, which another config took in", async () => {
    const mapping = (words: string): object => ({
      id: "orders",
      match: { path: "orders" },
      messageTemplate: `{{ $string(count) }} ${words}`,
      wakeMode: "next-heartbeat",
      coalesce: { windowSeconds: 2 },
    });
    world = await createWorld({
      dir: cli.dir,
      config: { hooks: { mappings: [mapping("orders")] } },
    });
    const { eventId } = (await world.post("/hooks/orders", { id: 1 })).body as { eventId: string };
    expect((await cli.explain(eventId)).runs).toMatchObject([
      { run: { status: "collecting", combinedBy: null } },
    ]);
    await world.reload({ hooks: { mappings: [mapping("sales")] } });
    const found = await world.until(async () => {
      const one = await cli.explain(eventId);
      return one.runs[0]?.run.endedAt !== null && one;
    });
    expect([found.config?.number, found.config?.today, found.runs[0]?.run.combinedBy]).toEqual([
      1, 2, 2,
    ]);
    const { out } = await cli.rouse(`explain ${eventId}`);
    expect(out).toMatch(/\nmade of +1 event of a batch, by config 2\n/);
    expect(out).toContain("\nmessage of the events together\n  ⟦1⟧ sales\n");
  });

  it("the one run of events that came together, with the message that they gave then", async () => {
    const mapping = (words: string): object => ({
      id: "orders",
      match: { path: "orders" },
      messageTemplate: `{{ $string(count) }} ${words}: {{ $join(events.$string(id), ",") }}`,
      wakeMode: "next-heartbeat",
      coalesce: { windowSeconds: 0.4, key: "{{shop}}" },
    });
    world = await createWorld({
      dir: cli.dir,
      config: { hooks: { mappings: [mapping("orders")] } },
    });
    const ids: string[] = [];
    for (const id of [1, 2, 3])
      ids.push(
        ((await world.post("/hooks/orders", { shop: "a", id })).body as { eventId: string })
          .eventId,
      );
    const ended = async (): Promise<Explanation | false> => {
      const found = await cli.explain(ids[1] ?? "");
      return found.runs[0]?.run.endedAt !== null && found;
    };
    await world.until(ended);
    await world.reload({ hooks: { mappings: [mapping("sales")] } });
    const { config, evaluation, runs } = await cli.explain(ids[1] ?? "");
    expect([config?.number, config?.today, evaluation?.mapping, evaluation?.outcome]).toEqual([
      1,
      2,
      "orders",
      "actions",
    ]);
    expect(runs).toMatchObject([{ run: { collected: 3, status: "succeeded" } }]);
    const { out } = await cli.rouse(["explain", ids[1] ?? ""]);
    expect(out).toMatch(/\nmade of +3 events together, by config 1\n/);
    expect(out).toContain("\nmessage of the events together\n  ⟦3⟧ orders: ⟦1,2,3⟧\n");
    expect(out).not.toContain("sales");
  });
});
