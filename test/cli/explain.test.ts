import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Explanation } from "../../src/operate/records/explain.ts";
import { createWorld, type Answer, type World } from "../e2e/world.ts";
import { createCli, type CliWorld } from "./world.ts";

const MAPPINGS = [
  {
    id: "order.big",
    match: { path: "shop", payload: { type: "order.created", "data.total": { $gte: 100 } } },
    messageTemplate: "Order {{data.id}} over {{data.total}}",
  },
  {
    id: "order.any",
    match: { path: "shop" },
    messageTemplate: "Order {{data.id}} of {{data.customer}}",
    deliver: true,
    to: "room",
  },
  { id: "order.late", match: { path: "shop" }, messageTemplate: "late" },
];

describe("rouse explain", () => {
  let cli: CliWorld;
  let world: World;
  beforeAll(async () => {
    cli = await createCli();
    world = await createWorld({ dir: cli.dir, config: { hooks: { mappings: MAPPINGS } } });
  });
  afterAll(async () => {
    await world.stop();
    await cli.close();
  });
  const post = (path: string, payload: unknown): Promise<Answer> =>
    world.post(`/hooks/${path}`, payload);
  const explain = ({ body }: Answer): Promise<Explanation> =>
    cli.explain((body.requestId ?? body.eventId) as string);

  it("shows who took a hook, where each mapping stands, and what came of it", async () => {
    const answer = await post("shop", { type: "order.created", data: { id: 7, total: "240" } });
    await world.until(async () => (await explain(answer)).runs[0]?.run.endedAt !== null);
    const { out } = await cli.rouse(`explain ${answer.body.eventId}`);
    expect(out).toMatch(/order\.big {2}\(rouse\.json5:1\) {2}does not match/);
    expect(out).toContain('data.total is the text "240"; $gte with a number never holds for text');
    expect(out).toMatch(/order\.any {2}\(rouse\.json5:1\) {2}took it/);
    expect(out).toContain('{{ data.id }}  gave "7"');
    expect(out).toContain("{{ data.customer }}  is missing");
    expect(out).toMatch(
      /order\.late {2}\(.*\) {2}would have matched, but order\.any took it before/,
    );
    expect(out).toMatch(/\nrun +run_\w+\nstatus +succeeded\n/);
    expect(out).toContain("\nreply\n");
  });

  it("says of the built-in paths that no mapping decides there, and of an unknown event that there is none", async () => {
    const { evaluation, note } = await explain(await post("wake", { text: "hello" }));
    expect([evaluation, note]).toEqual([
      null,
      "no mapping decides about /wake: its body names the work",
    ]);
    await cli.fails("explain evt_0000000000000000000000000", 1, "no event");
  });

  it("starts no run, keeps no event, and sends nothing", async () => {
    const { body: answer } = await post("shop", { type: "x", data: { id: 1 } });
    const list = async (what: string): Promise<string[]> =>
      ((await world.admin(`/admin/v1/${what}?limit=500`)).body[what] as { id: string }[]).map(
        ({ id }) => id,
      );
    const before = [await list("events"), await list("runs"), await list("deliveries")];
    for (let n = 0; n < 5; n++)
      expect((await world.admin(`/admin/v1/events/${answer.eventId}/explain`)).status).toBe(200);
    expect([await list("events"), await list("runs"), await list("deliveries")]).toEqual(before);
  });
});
