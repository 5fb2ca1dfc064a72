import { readFileSync } from "node:fs";
import { join } from "node:path";
import jsonata from "jsonata";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { compileExpression } from "../../src/mapping/expression.ts";
import { jsonataInput, type Scope } from "../../src/mapping/scope.ts";
import { callsOf, FUNCTIONS, NOW, VALUES } from "./jsonata-cases.ts";

const scopeOf = (payload: unknown): Scope => ({ payload, headers: {}, query: {}, path: "p", now: NOW });
const payloads = new Map<string, Scope>();
function scopeFor(kinds: readonly string[]): Scope {
  const key = kinds.join();
  const known = payloads.get(key) ?? scopeOf(Object.fromEntries(kinds.map((kind, index) => ["abc"[index], VALUES[kind]])));
  payloads.set(key, known);
  return known;
}

/** A result as text: functions left out, as JSON has none. */
const shown = (value: unknown): string =>
  JSON.stringify(value, (_key, member: unknown) => {
    const { _jsonata_lambda, _jsonata_function } = (member ?? {}) as Record<string, unknown>;
    return _jsonata_lambda === true || _jsonata_function === true ? undefined : member;
  }) ?? "missing";

type Run = (scope: Scope) => Promise<string>;

function theirs(source: string): Run {
  let expression: ReturnType<typeof jsonata>;
  try {
    expression = jsonata(source);
  } catch (error) {
    return async () => `error ${(error as { code: string }).code}`;
  }
  return async (scope) => {
    try {
      return shown(await expression.evaluate(jsonataInput(scope), {}));
    } catch (error) {
      // Errors of JavaScript itself have codes of another kind, or none.
      return `error ${/^[A-Z]\d{4}$/.exec((error as { code?: string }).code ?? "")?.[0] ?? ""}`;
    }
  };
}

const codeIn = (message: string): string => /\b[A-Z]\d{4}\b/.exec(message)?.[0] ?? (message.startsWith("the expression failed") ? "" : message);

function ours(source: string): Run {
  const clock = { wall: () => 0, cpu: () => 0 };
  const compiled = compileExpression(source, { clock });
  if (!compiled.ok) return async () => `error ${codeIn(compiled.message)}`;
  return async (scope) => {
    const result = await compiled.expression.evaluate(scope);
    if (!result.ok && result.message.includes("wörld")) return `a message that quotes the payload: ${result.message}`;
    return result.ok ? shown(result.value) : `error ${codeIn(result.message)}`;
  };
}

describe("JSONata's functions", () => {
  // JSONata reads the stack of each of its errors, which costs more than all the rest.
  beforeAll(() => void (Error.stackTraceLimit = 0));
  beforeAll(() => void vi.useFakeTimers({ toFake: ["Date"], now: NOW }));
  afterAll(() => void vi.useRealTimers());

  it.each(FUNCTIONS)("$%s does what it does in the package", async (name) => {
    const differences: string[] = [];
    let calls = 0;
    let [source, own, other] = ["", ours("1"), theirs("1")];
    for (const call of callsOf(name)) {
      if (call.source !== source) [source, own, other] = [call.source, ours(call.source), theirs(call.source)];
      const scope = scopeFor(call.kinds);
      const [mine, expected] = [await own(scope), await other(scope)];
      calls++;
      if (mine !== expected) differences.push(`${source} of ${call.kinds.join(", ")}: ${mine} instead of ${expected}`);
    }
    if (process.env["COUNT"]) console.log(name, calls, differences.length, differences.slice(0, 6));
    expect(differences.slice(0, 20)).toEqual([]);
  });
});
