import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createProvider, type Provider } from "../e2e/provider.ts";
import { createWorld, type World, type WorldOptions } from "../e2e/world.ts";

/** Takes what no live mapping takes, and would also take a part of what the live mapping takes. */
const DRAFT = {
  id: "acme",
  mappings: [
    {
      id: "acme.order",
      match: { path: "acme", payload: { type: "order" } },
      messageTemplate: "Order {{n}}",
      channel: "console",
      to: "me",
    },
    {
      id: "acme.ping",
      match: { path: "acme", payload: { type: "ping" } },
      action: "wake",
      textTemplate: "Ping",
      wakeMode: "now",
    },
    {
      id: "acme.bad",
      match: { path: "acme", payload: { type: "bad" } },
      messageTemplate: "x",
      agentId: "{{type}}",
    },
  ],
};
const LIVE = {
  id: "acme.live",
  match: { path: "acme", payload: { type: "live" } },
  messageTemplate: "Live {{n}}",
  channel: "console",
  to: "me",
  summary: "quiet",
};

let world: World;
let provider: Provider | undefined;
afterEach(async () => {
  await world.stop();
  await provider?.close();
  provider = undefined;
});

async function createTrialWorld({ files, ...options }: WorldOptions = {}): Promise<Provider> {
  const made = (provider = await createProvider());
  world = await createWorld({
    config: {
      hooks: { mappings: [LIVE] },
      models: {
        providers: { fake: { type: "openai-compatible", baseUrl: made.url, apiKey: "k" } },
      },
      agents: { defaults: { model: "fake/m" } },
    },
    files: { "mappings/drafts/acme.json": DRAFT, ...files },
    ...options,
  });
  return made;
}

const trial = async (method = "GET", name = ""): Promise<Record<string, unknown>> => {
  const { body } = await world.admin(`/admin/v1/trials${name}`, { method });
  return ((body as { trials?: object[] }).trials?.[0] ??
    (body as { trial?: object }).trial ??
    body) as Record<string, unknown>;
};
const typeOf = (n: number): string =>
  n % 100 === 0
    ? "live"
    : n % 10 === 1
      ? "ping"
      : n % 10 === 2
        ? "bad"
        : n % 10 === 3
          ? "none"
          : "order";

describe("a trial", () => {
  it("counts what a draft would do over 1,000 hooks; it starts no run, sends nothing and changes no outcome", async () => {
    const { requests } = await createTrialWorld();
    expect(await trial("POST", "/acme")).toMatchObject({ draft: "acme", events: 0, ended: null });
    const outcomes: Record<string, number> = {};
    for (let first = 0; first < 1000; first += 20) {
      const numbers = Array.from({ length: 20 }, (_, index) => first + index);
      for (const { body } of await Promise.all(
        numbers.map((n) => world.post("/hooks/acme", { type: typeOf(n), n })),
      )) {
        const { outcome = "accepted" } = body as { outcome?: string };
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      }
    }
    const counts = await world.until(async () => {
      const now = await trial();
      return Number(now["events"]) + Number(now["dropped"]) === 1000 && now;
    });
    expect(outcomes).toEqual({ accepted: 10, unmatched: 990 });
    const seen = Number(counts["events"]);
    expect(seen).toBeGreaterThan(100);
    expect(counts).toMatchObject({
      wakes: expect.any(Number),
      refused: expect.any(Number),
      last: { eventId: expect.stringMatching(/^evt_/) },
    });
    if (seen === 1000)
      expect(counts).toMatchObject({
        matched: 890,
        runs: 690,
        wakes: 100,
        refused: 100,
        skipped: 0,
      });
    await world.until(async () => requests.length >= 10 && world.printed.length >= 10);
    const { body } = await world.admin("/admin/v1/runs?limit=500");
    expect((body as { runs: { mapping: string }[] }).runs.map(({ mapping }) => mapping)).toEqual(
      Array(10).fill("acme.live"),
    );
    expect([requests.length, world.printed.length]).toEqual([10, 10]);
    expect(requests.every((request) => provider?.text(request).includes("Live"))).toBe(true);
    const { body: listed } = await world.admin("/admin/v1/events?outcome=accepted&limit=500");
    expect((listed as { events: unknown[] }).events).toHaveLength(10);
    const { body: status } = await world.admin("/admin/v1/status");
    expect(
      (status as { status: { counts: Record<string, number> } }).status.counts["systemEvents"] ?? 0,
    ).toBe(0);
    expect(await trial("DELETE", "/acme")).toMatchObject({ events: seen });
    expect((await world.admin("/admin/v1/trials/acme", { method: "DELETE" })).status).toBe(404);
  });

  it("lets no hook wait for a slow draft: what it cannot follow is counted and left out", async () => {
    await createTrialWorld({
      workers: false,
      files: {
        "transforms/slow.ts":
          "export default () => new Promise((resolve) => setTimeout(() => resolve(null), 60_000));\n",
        "mappings/drafts/acme.json": {
          id: "acme",
          mappings: [{ ...DRAFT.mappings[0], transform: { module: "slow.ts" } }],
        },
      },
    });
    await trial("POST", "/acme");
    for (let n = 0; n < 300; n++)
      expect((await world.post("/hooks/acme", { type: "order", n })).status).toBe(200);
    // All were answered before the draft had an end of the first of them.
    expect(await trial()).toMatchObject({
      events: 0,
      dropped: expect.toSatisfy((dropped: number) => dropped > 150) as number,
    });
  });

  it("follows the config, and ends when the draft is changed, dropped or has landed", async () => {
    await createTrialWorld({ workers: false });
    const ended = () =>
      world.until(async () => ((await trial())["ended"] as { reason: string } | null) ?? undefined);
    await trial("POST", "/acme");
    world.write("mappings/more.json", {
      id: "more",
      mappings: [{ id: "more.x", match: { path: "more" }, messageTemplate: "x" }],
    });
    await world.gateway.reload();
    await world.post("/hooks/acme", { type: "order", n: 1 });
    await world.until(async () => (await trial())["runs"] === 1);
    world.write("mappings/drafts/acme.json", { ...DRAFT, description: "changed" });
    world.write("mappings/more.json", {
      id: "more",
      mappings: [{ id: "more.y", match: { path: "more" }, messageTemplate: "x" }],
    });
    await world.gateway.reload();
    expect(await ended()).toMatchObject({ reason: "the draft was changed: start its trial again" });
    await world.post("/hooks/acme", { type: "order", n: 2 });
    expect(await trial()).toMatchObject({ runs: 1 });
    await trial("POST", "/acme");
    const landed = await world.admin("/admin/v1/changes", {
      method: "POST",
      body: JSON.stringify({ change: { kind: "draft", name: "acme" }, confirm: ["recipient"] }),
    });
    expect(landed.body).toMatchObject({ result: { landed: true, inUse: true } });
    expect(["the draft has landed", 'there is no draft "acme"']).toContainEqual(
      (await ended()).reason.replace(/;.*/, ""),
    );
    expect((await world.post("/hooks/acme", { type: "order", n: 3 })).status).toBe(202);
    world.write("mappings/drafts/next.json", {
      id: "next",
      mappings: [{ id: "next.x", match: { path: "next" }, messageTemplate: "{{" }],
    });
    expect((await world.admin("/admin/v1/trials/next", { method: "POST" })).body).toMatchObject({
      error: {
        code: "config_invalid",
        issues: [{ path: expect.stringContaining("messageTemplate") }],
      },
    });
    rmSync(join(world.dir, "mappings/drafts/next.json"));
    expect((await world.admin("/admin/v1/trials/next", { method: "POST" })).status).toBe(404);
  });
});
