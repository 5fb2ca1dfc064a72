import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ReplayLine } from "../../src/operate/records/bulk-replay.ts";
import { createWorld, type Answer, type World } from "../e2e/world.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";

function namedTests(config: () => object): void {
  let world: World;
  beforeAll(async () => {
    const mappings = [
      {
        id: "note",
        match: { path: "note", payload: { kind: "good" } },
        messageTemplate: "Note {{n}}",
      },
    ];
    world = await createWorld({ workers: false, config: { ...config(), hooks: { mappings } } });
  });
  afterAll(() => world.stop());

  const send = async (n: number, kind = "bad"): Promise<string> =>
    (await world.post("/hooks/note", { kind, n })).body.eventId as string;
  const replay = (body: object): Promise<Answer> =>
    world.admin("/admin/v1/events/replay", { method: "POST", body: JSON.stringify(body) });
  const readLines = async (body: object): Promise<ReplayLine[]> => {
    const headers = { authorization: `Bearer ${world.gateway.operatorToken}` };
    const request = new Request("http://127.0.0.1/admin/v1/events/replay", {
      method: "POST",
      body: JSON.stringify(body),
      headers,
    });
    const text = await (await world.gateway.fetch(request)).text();
    return text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as ReplayLine);
  };
  const results = async (body: object): Promise<unknown[]> =>
    (await readLines(body)).flatMap((line) => {
      if (line.type !== "result") return [];
      return [
        line.ok ? [line.result.eventId, line.result.outcome] : [line.eventId, line.failure.code],
      ];
    });
  const countReplays = async (): Promise<number> =>
    (
      (await world.admin("/admin/v1/events?path=note&limit=500")).body.events as {
        replayOf: string | null;
      }[]
    ).filter(({ replayOf }) => replayOf !== null).length;

  it("takes these and no others, the oldest first, each once", async () => {
    const ids = [await send(1), await send(2), await send(3)];
    const [first, second, third] = ids as [string, string, string];
    const named = { select: "all", ids: [third, first, third] };
    expect(await results({ ...named, dryRun: true })).toEqual([
      [first, "unmatched"],
      [third, "unmatched"],
    ]);
    expect(await countReplays()).toBe(0);
    expect(await results(named)).toEqual([
      [first, "unmatched"],
      [third, "unmatched"],
    ]);
    expect(await countReplays()).toBe(2);
    // A second call makes no work twice, and says so.
    expect(await results({ select: "all", ids: [second, first, "evt_gone"] })).toEqual([
      [first, "not_retryable"],
      [second, "unmatched"],
      ["evt_gone", "not_found"],
    ]);
    expect(await countReplays()).toBe(3);
  });

  it("with `select` takes those of them that have this outcome", async () => {
    const [accepted, unmatched] = [await send(4, "good"), await send(5)];
    expect(await results({ select: "unmatched", ids: [accepted, unmatched] })).toEqual([
      [unmatched, "unmatched"],
    ]);
    expect(await results({ select: "failed", ids: [accepted, unmatched] })).toEqual([]);
  });

  it("takes an accepted event in again with `all` alone", async () => {
    const id = await send(6, "good");
    const { actions } = (await world.admin(`/admin/v1/events/${id}`)).body.event as {
      actions: { id: string }[];
    };
    const run = actions[0]?.id as string;
    expect((await world.admin(`/admin/v1/runs/${run}/cancel`, { method: "POST" })).status).toBe(
      200,
    );
    expect(await results({ select: "failed", ids: [id] })).toEqual([]);
    const before = await countReplays();
    expect(await results({ select: "all", ids: [id] })).toEqual([[id, "accepted"]]);
    expect(await countReplays()).toBe(before + 1);
  });

  it("refuses filters beside ids, no ids, and more than 10,000", async () => {
    const refusals = [
      [
        { select: "all", ids: ["evt_1"], path: "note", limit: 1 },
        "`ids` names what is meant: leave `limit`, `path` out",
      ],
      [{ select: "all", ids: [] }, "ids: "],
      [{ select: "all", ids: Array.from({ length: 10_001 }, (_, n) => `evt_${n}`) }, "ids: "],
      [{ ids: ["evt_1"] }, "select: "],
    ] as const;
    for (const [body, message] of refusals)
      expect(await replay(body)).toMatchObject({
        status: 400,
        body: { error: { code: "usage", message: expect.stringContaining(message) } },
      });
  });
}

describe("the replay of events that are named", () => namedTests(() => ({})));

describePostgres("on PostgreSQL", () => {
  const schema = newSchema();
  afterAll(() => schema.drop());
  describe("the replay of events that are named", () =>
    namedTests(() => ({ store: { url: schema.url } })));
});
