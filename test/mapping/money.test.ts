import { afterAll, describe, expect, it } from "vitest";
import { compileExpression } from "../../src/mapping/jsonata/expression.ts";
import { createTransformPool } from "../../src/mapping/transforms/pool.ts";

const pool = createTransformPool(process.env);
afterAll(() => pool.close());

const SOURCE = "$formatMoney(amount, currency, decimals)";

async function format(payload: Record<string, unknown>, source = SOURCE) {
  const compiled = compileExpression(source);
  if (!compiled.ok) throw new Error(compiled.message);
  return compiled.expression.evaluate({ payload, headers: {}, query: {}, path: "p", now: 0 });
}

describe("$formatMoney", () => {
  it.each<[unknown, unknown, string | undefined, object?]>([
    [2200, "eur", "22.00 EUR"],
    [2200, "JPY", "2200 JPY"],
    [1234, "kwd", "1.234 KWD"],
    [12345, "clf", "1.2345 CLF"],
    // `Intl` gives these without decimals.
    [2200, "huf", "22.00 HUF"],
    [2200, "cop", "22.00 COP"],
    [2200, "iqd", "2.200 IQD"],
    [2200, "isk", "2200 ISK"],
    [2200, "isk", "22.00 ISK", { ISK: 2, UGX: 2 }],
    [2200, "mga", "2200 MGA", { MGA: 0 }],
    [2200, "eur", "22.00 EUR", { ISK: 2 }],
    [2200, "usdc", "22.00 USDC"],
    [0, "eur", "0.00 EUR"],
    [5, "eur", "0.05 EUR"],
    [-5, "eur", "-0.05 EUR"],
    [-123456, "eur", "-1234.56 EUR"],
    [-2200, "jpy", "-2200 JPY"],
    // 1.15 * 100 and 9007199254740991 / 100 are not exact.
    [115, "eur", "1.15 EUR"],
    [9007199254740991, "eur", "90071992547409.91 EUR"],
    ["900719925474099312345", "eur", "9007199254740993123.45 EUR"],
    ["2200", "eur", "22.00 EUR"],
    [undefined, "eur", undefined],
    [null, "eur", undefined],
    ["", "eur", undefined],
    [2200, undefined, undefined],
    [2200, null, undefined],
    [2200, "", undefined],
  ])("writes %j %j as %j", async (amount, currency, text, decimals) => {
    expect(await format({ amount, currency, decimals })).toEqual({ ok: true, value: text });
  });

  it.each<[Record<string, unknown>, string]>([
    [{ amount: 22.5, currency: "eur" }, "an amount that is not a whole number"],
    [{ amount: 1e21, currency: "eur" }, "an amount that is not a whole number"],
    [{ amount: "canary", currency: "eur" }, "an amount that is not a whole number"],
    [{ amount: [2200], currency: "eur" }, "an amount that is not a whole number"],
    [{ amount: 1, currency: { canary: 1 } }, "a currency that is not text"],
    [
      { amount: 1, currency: "eur", decimals: { EUR: "canary" } },
      "decimals that are not a whole number",
    ],
    [
      { amount: 1, currency: "eur", decimals: { EUR: 1e9 } },
      "decimals that are not a whole number",
    ],
    [
      { amount: 1, currency: "eur", decimals: "canary" },
      "in $formatMoney, argument 3 (JSONata T0410)",
    ],
  ])("fails on %j, and does not quote it", async (payload, message) => {
    const result = await format(payload);
    expect(result).toEqual({ ok: false, message: expect.stringContaining(message) });
    expect(JSON.stringify(result)).not.toContain("canary");
  });

  it("works in a child process too, and as an argument", async () => {
    const input = { amount: 2200, currency: "eur", amounts: [1, 2] };
    const inChild = await pool.runExpression({
      owner: "m",
      source: SOURCE,
      input,
      now: 0,
      timeoutMs: 1000,
    });
    expect(inChild).toEqual({ ok: true, value: "22.00 EUR" });
    expect(await format(input, "$map(amounts, $formatMoney(?, 'jpy'))")).toEqual({
      ok: true,
      value: ["1 JPY", "2 JPY"],
    });
  });
});
