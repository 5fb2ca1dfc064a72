import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";

const CONFIG = `{
  gateway: { port: 0 },
  hooks: {
    enabled: true,
    token: "test-hook-token-0123456789",
    presets: [{ use: "github", auth: "token" }],
    mappings: [
      // Orders of the shop.
      {
        id: "order", // big ones
        match: { path: "shop", payload: { type: "order", "data.total": { $gte: 100 } } },
        messageTemplate: "Order {{data.id}} of {{data.total}}",
      },
      { id: "rest", match: { path: "shop", payload: { type: "refund" } }, messageTemplate: "{{data.id}}" },
    ],
  },
}
`;
const TEXT = `{
  id: "order", // big ones
  match: { path: "shop", payload: { type: "order", "data.total": { $gte: 100 } } },
  messageTemplate: "Order {{data.id}} of {{data.total}}",
}`;

let world: World;
// One for all: the process that evaluates starts once, and no test writes a mapping.
beforeAll(async () => {
  world = await createWorld({ workers: false, start: false });
  world.write("rouse.json5", CONFIG);
  await world.reload();
});
afterAll(() => world.stop());

const send = async (body: object): Promise<string> =>
  (await world.post("/hooks/shop", body)).body.eventId as string;
const post = (path: string, body: object) =>
  world.admin(`/admin/v1${path}`, { method: "POST", body: JSON.stringify(body) });
const evaluate = async (
  text: string,
  event?: string,
  kind: object = { kind: "replace", mapping: "order" },
) => {
  const { body } = await post("/changes/evaluate", { change: { ...kind, text }, event });
  return body.evaluation;
};
/** The text that a mark or a problem points at. */
const at = (text: string, range: { start: number; end: number }): string =>
  text.slice(range.start, range.end);

describe("the text of a mapping", () => {
  it("comes as it is written, without the indent of its place, and goes back byte for byte", async () => {
    const { body } = await world.admin("/admin/v1/mappings/order");
    expect(body.mapping).toMatchObject({
      id: "order",
      own: true,
      place: "rouse.json5:9",
      text: TEXT,
    });
    const { check } = (
      await post("/changes/check", { change: { kind: "replace", mapping: "order", text: TEXT } })
    ).body;
    expect(check).toMatchObject({ diff: "", problems: [] });
  });

  it("of a preset is what it does with its options, and is not the user's own", async () => {
    const { mappings } = (await world.admin("/admin/v1/mappings")).body;
    const preset = mappings.find(({ own }: { own: boolean }) => !own);
    const { mapping } = (await world.admin(`/admin/v1/mappings/${preset.id}`)).body;
    expect(mapping).toMatchObject({
      own: false,
      file: null,
      text: expect.stringContaining("messageTemplate"),
    });
  });

  it("is evaluated against one event: the result and the place of each condition, and the results of the other mappings", async () => {
    const event = await send({ type: "order", data: { id: 7, total: 40 } });
    const before = await evaluate(TEXT, event);
    expect(
      before.marks.map(({ result, at: range }: { result: boolean; at: never }) => [
        result,
        at(TEXT, range),
      ]),
    ).toEqual([
      [true, 'path: "shop"'],
      [true, 'type: "order"'],
      [false, '"data.total": {'],
    ]);
    expect(before).toMatchObject({
      mapping: "order",
      problems: [],
      result: { outcome: "unmatched" },
    });
    expect(
      before.result.traces.map(({ mapping, verdict }: { mapping: string; verdict: string }) => [
        mapping,
        verdict,
      ]),
    ).toEqual([
      ["order", "no"],
      ["rest", "no"],
    ]);
    const after = await evaluate(TEXT.replace("100", "10"), event);
    expect(after.result).toMatchObject({
      outcome: "actions",
      mapping: "order",
      actions: [
        {
          content: [
            { text: "Order ", outside: false },
            { text: "7", outside: true },
            { text: " of ", outside: false },
            { text: "40", outside: true },
          ],
        },
      ],
    });
    // Nothing was written and nothing runs.
    expect(readFileSync(join(world.dir, "rouse.json5"), "utf8")).toBe(CONFIG);
  });

  it("that is added is found behind all other mappings", async () => {
    const event = await send({ type: "chargeback", data: { id: 1 } });
    const text = `{ id: "charge", match: { path: "shop", payload: { type: "chargeback" } }, messageTemplate: "{{data.id}}" }`;
    expect(await evaluate(text, event, { kind: "add" })).toMatchObject({
      mapping: "charge",
      result: { mapping: "charge" },
    });
  });

  it.each([
    [
      "text that is no JSON5",
      TEXT.replace("match:", "match"),
      "{",
      /^is not valid JSON5 at line 3/,
    ],
    ["an expression", TEXT.replace("{{data.id}}", "{{ data.id & }}"), " ", /is not valid JSONata/],
    [
      "an expression behind an escape",
      TEXT.replace("Order {{data.id}}", "\\u004frder\\n{{ data.id ~ }}"),
      "~",
      /is not valid JSONata/,
    ],
    [
      "an unknown key",
      TEXT.replace("messageTemplate", "mesageTemplate"),
      'mesageTemplate: "Order {{data.id}} of {{data.total}}"',
      /messageTemplate/,
    ],
    ["an unknown operator", TEXT.replace("$gte", "$gt3"), "$gt3: 100", /\$gte?/],
  ])("with %s wrong says so at its character", async (_name, text, character, message) => {
    const { problems } = await evaluate(text);
    const problem = problems.find((one: { message: string }) => message.test(one.message));
    expect(problem, JSON.stringify(problems)).toBeDefined();
    expect(at(text, problem.at)).toBe(character);
  });

  it("that is no mapping at all, or of a mapping that is gone, is a problem and no error", async () => {
    expect((await evaluate("[]")).problems).toMatchObject([
      { message: expect.stringContaining("not a mapping"), at: null },
    ]);
    expect(
      (await evaluate(TEXT, undefined, { kind: "replace", mapping: "gone" })).problems,
    ).toMatchObject([{ message: 'there is no mapping "gone"; `rouse hooks` lists them' }]);
    expect(
      (
        await post("/changes/evaluate", {
          change: { kind: "replace", mapping: "order", text: TEXT },
          event: "evt_none",
        })
      ).status,
    ).toBe(404);
  });
});

describe("an event that is kept as a test", () => {
  it("expects what the text does that is not saved yet, and passes once it is", async () => {
    const event = await send({ type: "order", data: { id: 7, total: 40 } });
    const change = { kind: "replace", mapping: "order", text: TEXT.replace("100", "10") };
    const { fixture } = (await post("/fixtures", { event, change })).body;
    expect(fixture.expect).toMatchObject({ outcome: "accepted", mapping: "order" });
    expect(readdirSync(join(fixture.written, ".."))).toEqual(["order.json5"]);
    expect((await post("/changes/check", { change })).body.check.tests).toMatchObject({
      passed: 1,
      failed: [],
    });
    expect(
      (await post("/changes/check", { change: { ...change, text: TEXT } })).body.check.confirm,
    ).toEqual(["failing-tests"]);
    expect((await post("/fixtures", { event, name: "../../x" })).body.error.code).toBe("usage");
  });
});
