import { afterAll, describe, expect, it } from "vitest";
import type { Evaluated } from "../../src/mapping/template-context.ts";
import { compileExpression } from "../../src/mapping/jsonata/expression.ts";
import { createTransformPool } from "../../src/mapping/transforms/pool.ts";

const pool = createTransformPool(process.env);
afterAll(() => pool.close());

/** A clock on which the time of an evaluation is up at the first look. */
const createLate = () => {
  let at = 0;
  const tick = (): number => (at += 1000);
  return { wall: tick, cpu: tick };
};

/** Evaluates an expression in the gateway's process, or in a child since its time here is up. */
async function evaluate(
  source: string,
  payload: object,
  { late = false, shortens = true } = {},
): Promise<Evaluated> {
  const compiled = compileExpression(source, {
    shortens,
    ...(late && { clock: createLate() }),
    runner: (text, input, now) =>
      pool.runExpression({ owner: "m", source: text, input, now, timeoutMs: 5000 }),
  });
  if (!compiled.ok) throw new Error(compiled.message);
  return compiled.expression.evaluate({ payload, headers: {}, query: {}, path: "p", now: 0 });
}

const list = (count: number, length: number) => ({
  commits: Array.from({ length: count }, (_, n) => ({ message: `${n} ${"x".repeat(length)}` })),
});
const JOIN = "$join(commits.message[$], '\n')";

describe.each([
  ["in the gateway's process", false],
  ["in a child", true],
])("an expression of a message whose input is too long, %s", (_where, late) => {
  it.each<[string, string, object, RegExp]>([
    ["many texts", JOIN, list(2000, 1000), /^0 x{100,}\[cut: \d+ characters\]\n1 x/],
    [
      "one text",
      "$uppercase(text)",
      { text: "a".repeat(2_000_000) },
      /^A+\[CUT: \d+ CHARACTERS\]$/,
    ],
    ["a long list", JOIN, list(25_000, 1), /^0 x\n1 x\n/],
    ["all of it", "$string(payload)", list(5000, 300), /\[cut: \d+ (?:characters|entries)\]/],
    ["a text that grows", "text & text", { text: "b".repeat(900_000), n: [1] }, /^b+/],
  ])("is shortened, with a mark: %s", async (_name, source, payload, expected) => {
    const result = await evaluate(source, payload, { late });
    expect(result).toEqual({ ok: true, value: expect.stringMatching(expected) });
    expect(String(result.ok && result.value).length).toBeLessThanOrEqual(2_000_000);
  });

  it("fails elsewhere, and fails for another reason all the same", async () => {
    expect(await evaluate(JOIN, list(2000, 1000), { late, shortens: false })).toMatchObject({
      ok: false,
      message: "the expression makes a text of more than a million characters",
    });
    expect(await evaluate("$number(text)", { text: "x".repeat(2000) }, { late })).toMatchObject({
      ok: false,
      message: expect.stringContaining("$number"),
    });
  });
});
