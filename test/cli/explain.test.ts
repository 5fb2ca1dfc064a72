import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Explanation } from "../../src/operate/records/explain.ts";
import { createWorld, type Answer, type World } from "../e2e/world.ts";
import { EXPLAIN_CASES } from "../mapping/explain-cases.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { createCli, type CliWorld } from "./world.ts";

const body = Object.fromEntries(EXPLAIN_CASES.map(([, value], index) => [`f${index}`, value]));
const cases = EXPLAIN_CASES.map(([condition], index) => ({
  id: `case.${index}`,
  match: { path: "cases", payload: { [`f${index}`]: condition, never: { $exists: true } } },
  messageTemplate: "m",
}));
const MAPPINGS = [
  ...cases,
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

interface Both {
  world: World;
  cli: CliWorld;
}

async function begin(config: object): Promise<Both> {
  const cli = await createCli();
  return {
    cli,
    world: await createWorld({
      dir: cli.dir,
      config: { hooks: { mappings: MAPPINGS }, ...config },
    }),
  };
}

function explainTests(both: () => Both): void {
  const post = async (path: string, payload: unknown): Promise<Answer> =>
    both().world.post(`/hooks/${path}`, payload);
  const idOf = ({ body: answer }: Answer): string => (answer.requestId ?? answer.eventId) as string;
  const explain = async (id: string): Promise<Explanation> => {
    const { code, out, err } = await both().cli.rouse(["explain", id, "--json"]);
    expect([code, err]).toEqual([0, expect.any(String)]);
    return (JSON.parse(out) as { explanation: Explanation }).explanation;
  };

  it("names value, type and reason of every operator's cases", async () => {
    const id = idOf(await post("cases", body));
    const { evaluation, note } = await explain(id);
    const found = evaluation?.traces.map(({ conditions }) =>
      conditions.find(({ field }) => field?.startsWith("f")),
    );
    const expected = EXPLAIN_CASES.map(([, , result, reason], index) => ({
      result,
      reason: reason.replace("FIELD", `f${index}`),
    }));
    expect(found).toMatchObject(expected);
    expect(note).toBeNull();
    const { out } = await both().cli.rouse(["explain", id]);
    for (const { reason } of expected) expect(out).toContain(reason);
  });

  it("shows who took a hook, where each mapping stands, and what came of it", async () => {
    const id = idOf(await post("shop", { type: "order.created", data: { id: 7, total: "240" } }));
    await both().world.until(async () => (await explain(id)).runs[0]?.run.endedAt !== null);
    const { out } = await both().cli.rouse(["explain", id]);
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

  it("takes `latest` and the beginning of an id, and shows control characters to nobody's terminal", async () => {
    const { body: answer } = await post("shop", {
      type: "\u001b[31mred\u0007",
      data: { id: "\u202eevil\u001b]0;x" },
    });
    const { code, out } = await both().cli.rouse(["explain", "latest"]);
    expect([code, out]).toEqual([0, expect.stringContaining(answer.eventId as string)]);
    // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
    expect(out).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
  });

  it("says of the built-in paths that no mapping decides there, and of an unknown event that there is none", async () => {
    const { evaluation, note } = await explain(idOf(await post("wake", { text: "hello" })));
    expect([evaluation, note]).toEqual([
      null,
      "no mapping decides about /wake: its body names the work",
    ]);
    expect(await both().cli.rouse(["explain", "evt_0000000000000000000000000"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("no event"),
    });
  });
}

describe("rouse explain", () => {
  let both: Both;
  beforeAll(async () => {
    both = await begin({});
  });
  afterAll(async () => {
    await both.world.stop();
    await both.cli.close();
  });
  explainTests(() => both);

  it("starts no run, keeps no event, and sends nothing", async () => {
    const { body: answer } = await both.world.post("/hooks/shop", { type: "x", data: { id: 1 } });
    const list = async (what: string): Promise<string[]> =>
      ((await both.world.admin(`/admin/v1/${what}?limit=500`)).body[what] as { id: string }[]).map(
        ({ id }) => id,
      );
    const before = [await list("events"), await list("runs"), await list("deliveries")];
    for (let n = 0; n < 5; n++)
      expect((await both.world.admin(`/admin/v1/events/${answer.eventId}/explain`)).status).toBe(
        200,
      );
    expect([await list("events"), await list("runs"), await list("deliveries")]).toEqual(before);
  });

  it("says in what today's mappings differ from what was done", async () => {
    const { body: answer } = await both.world.post("/hooks/shop", {
      type: "order.created",
      data: { id: 7, total: 5 },
    });
    const config = JSON.stringify({
      gateway: { port: 0 },
      hooks: {
        enabled: true,
        token: "test-hook-token-0123456789",
        mappings: MAPPINGS.filter(({ id }) => id !== "order.any"),
      },
    });
    both.world.write("rouse.json5", config);
    await both.world.until(async () => {
      const { out } = await both.cli.rouse(["explain", answer.eventId as string, "--now"]);
      return out.includes("it was accepted by order.any; today it would be accepted by order.late");
    });
  });
});

describePostgres("rouse explain, on PostgreSQL", () => {
  const schema = newSchema();
  let both: Both;
  beforeAll(async () => {
    both = await begin({ store: { url: schema.url } });
  });
  afterAll(async () => {
    await both.world.stop();
    await both.cli.close();
  });
  explainTests(() => both);
});
