import { readFileSync } from "node:fs";
import { join } from "node:path";
import JSON5 from "json5";
import { afterAll, describe, expect, it } from "vitest";
import { plainText } from "../../src/core/text.ts";
import type { Evaluated } from "../../src/mapping/template-context.ts";
import { compileExpression } from "../../src/mapping/jsonata/expression.ts";
import { createTransformPool } from "../../src/mapping/transforms/pool.ts";
import { compileTemplate } from "../../src/mapping/template.ts";
import { compile, input } from "./world.ts";

const pool = createTransformPool(process.env);
afterAll(() => pool.close());

const MESSAGE = JSON.stringify({ detail: { id: "i-1", tags: ["a", "b"] }, state: "ALARM" });
const scope = (payload: object) => ({ payload, headers: {}, query: {}, path: "p", now: 0 });

async function here(source: string, payload: object): Promise<Evaluated> {
  const compiled = compileExpression(source);
  if (!compiled.ok) throw new Error(compiled.message);
  return compiled.expression.evaluate(scope(payload));
}
const inChild = (source: string, payload: Record<string, unknown>): Promise<Evaluated> =>
  pool.runExpression({ owner: "m", source, input: payload, now: 0, timeoutMs: 1000 });

describe.each([
  ["in the gateway's process", here],
  ["in a child", inChild],
])("$parseJson %s", (_where, evaluate) => {
  it.each([
    ["$parseJson(Message).detail.id", { Message: MESSAGE }, "i-1"],
    ["Message.$parseJson().state", { Message: MESSAGE }, "ALARM"],
    ["Message ~> $parseJson ~> $lookup('state')", { Message: MESSAGE }, "ALARM"],
    ["$parseJson(Message).detail.tags[1]", { Message: MESSAGE }, "b"],
    ["$map(list, $parseJson)", { list: ["1", '"x"', "[true]"] }, [1, "x", [true]]],
    ["($p := $parseJson(?); $p('null'))", {}, null],
    ["$parseJson(Message)", {}, undefined],
    ["$parseJson(Message).gone", { Message: MESSAGE }, undefined],
    ["$parseJson(Message)", { Message: '{"__proto__":{"admin":true},"a":1}' }, { a: 1 }],
    ["$parseJson(Message).admin", { Message: '{"__proto__":{"admin":true}}' }, undefined],
    [
      "$merge([$parseJson(Message), {'b': 2}])",
      { Message: '{"a":1,"__proto__":{"admin":true}}' },
      { a: 1, b: 2 },
    ],
  ])("reads %s of %j", async (source, payload, value) => {
    const result = await evaluate(source, payload);
    expect(result).toEqual({ ok: true, value });
    // A parsed `__proto__` is no member, and no prototype either.
    if (typeof value === "object" && value !== null)
      expect(JSON.stringify(result)).not.toContain("admin");
  });

  it.each([
    [
      "a text that is not JSON",
      "canary {",
      "the expression gives $parseJson a text that is not JSON",
    ],
    ["an empty text", "", "the expression gives $parseJson a text that is not JSON"],
    [
      "what is nested too deeply",
      `${"[".repeat(201)}"canary"${"]".repeat(201)}`,
      "too large or nested too deeply",
    ],
    ["too many values", JSON.stringify(Array(100_001).fill(1)), "too large or nested too deeply"],
    [
      "a text that is too long",
      JSON.stringify("canary".repeat(200_000)),
      "more than a million characters",
    ],
    ["what is no text", { canary: 1 }, "in $parseJson, argument 1 (JSONata T0410)"],
  ])("fails on %s, and does not quote it", async (_what, Message, message) => {
    const result = await evaluate("$parseJson(Message)", { Message });
    expect(result).toMatchObject({ ok: false, message: expect.stringContaining(message) });
    // `error` is for the operator alone, and may quote the text.
    expect(JSON.stringify({ ...result, error: null })).not.toContain("canary");
  });
});

it("$parseJson: a part that the parsed JSON lacks is missing in a template", async () => {
  const compiled = compileTemplate(
    "{{ $parseJson(Message).state }} {{ $parseJson(Message).reason }}",
  );
  if (!compiled.ok) throw new Error(compiled.message);
  const rendered = await compiled.template.render(scope({ Message: MESSAGE }));
  if (!rendered.ok) throw new Error(rendered.message);
  expect([plainText(rendered.parts), rendered.missing]).toEqual([
    "ALARM ",
    ["$parseJson(Message).reason"],
  ]);
});

it("$parseJson: the alarm inside a message of AWS SNS is read, as the docs show", async () => {
  const page = readFileSync(join(import.meta.dirname, "../../docs/mappings.md"), "utf8");
  const example =
    [...page.matchAll(/^```json5\n([^]*?)^```$/gm)].find(([, text]) =>
      text?.includes("$parseJson"),
    )?.[1] ?? "";
  const { set, issues } = await compile({ mappings: [JSON5.parse(example)] }, {}, pool);
  expect(issues).toEqual([]);
  const notification = (state: string): object => ({
    Type: "Notification",
    TopicArn: "arn:aws:sns:eu-west-1:1:alarms",
    Message: JSON.stringify({
      AlarmName: "cpu",
      NewStateValue: state,
      NewStateReason: "Threshold crossed",
    }),
  });
  expect(await set.run(input("alarms", notification("ALARM")))).toMatchObject({
    kind: "actions",
    results: [
      {
        draft: {
          content: [{ text: "cpu" }, { text: ": " }, { text: "Threshold crossed" }],
          fields: { sessionKey: "hook:alarm:cpu" },
        },
      },
    ],
  });
  expect(await set.run(input("alarms", notification("OK")))).toMatchObject({ kind: "unmatched" });
});
