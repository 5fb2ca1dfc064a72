import { expect, it } from "vitest";
import {
  compareNumbers,
  isHeld,
  parseJson,
  renderNumber,
  roundNumbers,
  writeJson,
} from "../../src/core/json.ts";

/** Numbers from 0 to 1, the same in every run: mulberry32, https://gist.github.com/tommyettinger/46a874533244883189143505d203312c */
function createRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

it("json: writes 50,000 numbers of every form as they were written", () => {
  const below = createRandom(7);
  const digits = (count: number): string =>
    Array.from({ length: count }, () => (below(3) === 0 ? 0 : below(10))).join("");
  for (let n = 0; n < 50_000; n++) {
    const whole = below(3) === 0 ? "0" : `${1 + below(9)}${digits(below(20))}`;
    const fraction = below(2) === 0 ? "" : `.${digits(1 + below(20))}`;
    const exponent =
      below(4) === 0 ? `${"eE"[below(2)]}${["", "+", "-"][below(3)]}${below(40)}` : "";
    const number = `${below(3) === 0 ? "-" : ""}${whole}${fraction}${exponent}`;
    const text = [`{"a":${number}}`, `[${number},1]`, `{"b":{"c":[[${number}]]}}`][below(3)] ?? "";
    expect(writeJson(parseJson(text))).toBe(text);
  }
});

it.each([
  ["154284075601887489", false],
  ["9007199254740992", true],
  ["9007199254740993", false],
  ["0.1", true],
  ["19.90", true],
  // All digits of a double, as some programs write them.
  ["0.10000000000000001", true],
  ["0.1234567890123456789", false],
  ["1e400", false],
  ["-0", true],
  ["1E5", true],
])("json: %s fits a JavaScript number: %j", (text, fits) => {
  expect(isHeld(text)).toBe(fits);
  expect((parseJson(`[${text}]`) as unknown[])[0]).toBe(fits ? Number(text) : text);
});

it.each([
  [5, "154284075601887489", -1],
  ["154284075601887490", "154284075601887489", 1],
  ["1e400", 3, 1],
  ["-1e400", 3, -1],
  ["-154284075601887490", "-154284075601887489", -1],
  ["0.10", 0.1, 0],
  [0, "0.00000000000000000001", -1],
  [0, "-0.00000000000000000001", 1],
])("json: %j compared with %j", (left, right, order) => {
  expect(Math.sign(compareNumbers(left, right))).toBe(order);
});

it("json: prints what was computed with 15 digits, and what was read as it was written", () => {
  expect(renderNumber(1.1 + 2.2)).toBe("3.3");
  expect(renderNumber(Number.MAX_SAFE_INTEGER)).toBe("9007199254740991");
  const read = parseJson('{"price":19.90,"again":5.0,"other":5,"lat":0.12345678901234568}');
  expect([19.9, 0.12345678901234568, 5].map((value) => renderNumber(value, read))).toEqual([
    "19.90",
    "0.12345678901234568",
    // Written in two ways: there is no telling which of them it was.
    "5",
  ]);
});

it("json: writes dates, raw JSON, holes and what JSON has no word for as JSON.stringify does", () => {
  const raw = (JSON as unknown as { rawJSON(text: string): object }).rawJSON("1.50");
  const value = {
    at: new Date(0),
    raw,
    list: [Object.assign([], { length: 1 }), undefined, () => 1, NaN],
    gone: undefined,
    map: new Map(),
  };
  expect(writeJson(value)).toBe(JSON.stringify(value));
  expect(writeJson(value, { indent: 2 })).toBe(JSON.stringify(value, null, 2));
});

it("json: gives numbers in place of their texts, and texts of digits as they are", () => {
  const read = parseJson('{"id":154284075601887489,"text":"154284075601887489","l":[1e400]}');
  expect(roundNumbers(read)).toEqual({
    id: 154284075601887490,
    text: "154284075601887489",
    l: [Number.MAX_VALUE],
  });
});

it("json: reads texts piece by piece as JSON.parse does", () => {
  const below = createRandom(11);
  const text = (): string =>
    JSON.stringify(
      Array.from({ length: below(6) }, () => '"\\ :,{}[]\u2028é😀\n1'[below(14)] ?? "").join(""),
    );
  const make = (depth: number): string => {
    const kind = below(depth > 0 ? 7 : 5);
    if (kind < 3) return [text(), "true", "null"][kind] as string;
    if (kind < 5) return ["1.50", "-0.0", "1e3"][below(3)] as string;
    const space = [" ", "\n\t", ""][below(3)];
    const members = Array.from({ length: below(5) }, () => make(depth - 1));
    if (kind === 5) return `[${space}${members.join(`,${space}`)}${space}]`;
    const keys = members.map((_, at) =>
      below(2) === 0 ? `"${below(3)}"` : text().replace(/"$/, `${at}"`),
    );
    return `{${members.map((member, at) => `${keys[at]}${space}:${member}`).join()}${space}}`;
  };
  for (let n = 0; n < 5_000; n++) {
    const json = `[1.50,${make(4)}]`;
    expect(parseJson(json), json).toEqual(JSON.parse(json));
    expect(JSON.parse(writeJson(parseJson(json), { indent: below(3) }))).toEqual(JSON.parse(json));
  }
});

it("json: takes a byte order mark away, and says where a text is no JSON", () => {
  expect(parseJson('\ufeff{"a":1}')).toEqual({ a: 1 });
  expect(() => parseJson("{a}")).toThrow(SyntaxError);
});
