import { createRequire } from "node:module";
import type jsonataType from "jsonata";
import { didYouMean } from "../config/suggest.ts";
import { BOUNDED, GuardError, MAX_SEQUENCE, MAX_TEXT, tooLong } from "./functions.ts";
import { createScale, distinct, sort } from "./lists.ts";
import { compileRegex, LinearRegExp } from "./regex.ts";

const require = createRequire(import.meta.url);
let library: typeof jsonataType | undefined;
/** Loaded when the first expression that is no plain path is compiled. */
const load = (): typeof jsonataType => (library ??= require("jsonata") as typeof jsonataType);

/** Time in the gateway's own process, where an expression that runs holds up everything else. */
export const IN_PROCESS_MS = 10;
const MAX_STACK = 200;
const MAX_RESULT_NODES = 100_000;
/** JSONata calls what is bound to this name with the result of every step. */
const AFTER_EACH_STEP = Symbol.for("jsonata.__evaluate_exit") as unknown as string;

/** Functions that an expression may call. */
const FUNCTIONS = new Set(
  "sum count max min average string substring substringBefore substringAfter lowercase uppercase length trim pad match contains replace split join formatNumber formatBase formatInteger parseInteger number floor ceil round abs sqrt power boolean not map zip filter single reduce sift keys lookup append exists spread merge reverse each error assert type sort shuffle distinct base64encode base64decode encodeUrlComponent encodeUrl decodeUrlComponent decodeUrl toMillis fromMillis clone now millis"
    .split(" ")
    .concat(["foldLeft"]),
);
const REFUSED = new Set(["eval", "random", "shuffle"]);

/** The same as JSONata's own, in a time that does not grow with the square of the list. */
const LISTS: typeof BOUNDED = { distinct: [distinct, "<x:x>"], sort: [sort, "<af?:a>"] };

interface Node {
  type?: string;
  value?: unknown;
  procedure?: Node;
  arguments?: Node[];
  lhs?: unknown;
  rhs?: unknown;
  [member: string]: unknown;
}

/** Looks over an expression when it is compiled: what would fail or harm only when it runs is said now. */
function lookOver(ast: unknown): { problem: string | undefined; hasFunctions: boolean } {
  const bound = new Set<string>();
  const calls: string[] = [];
  let problem: string | undefined;
  let hasFunctions = false;
  const seen = new Set<object>();
  const visit = (value: unknown): void => {
    if (typeof value !== "object" || value === null || seen.has(value)) return;
    seen.add(value);
    if (value instanceof RegExp) {
      const compiled = compileRegex(value.source, value.flags);
      if (!compiled.ok) problem ??= `the regular expression /${value.source.slice(0, 60)}/: ${compiled.message}`;
      return;
    }
    const node = value as Node;
    if (node.type === "bind" && (node.lhs as Node)?.type === "variable") bound.add(String((node.lhs as Node).value));
    if (node.type === "lambda") {
      hasFunctions = true;
      for (const argument of node.arguments ?? []) bound.add(String(argument.value));
    }
    if ((node.type === "function" || node.type === "partial") && node.procedure?.type === "variable")
      calls.push(String(node.procedure.value));
    if (node.type === "variable" && typeof node.value === "string" && REFUSED.has(node.value))
      problem ??= `$${node.value} is not available here`;
    for (const member of Object.values(node)) visit(member);
  };
  visit(ast);
  const unknown = calls.find((name) => !FUNCTIONS.has(name) && !bound.has(name));
  if (unknown !== undefined) problem ??= `there is no function $${unknown}.${didYouMean(unknown, FUNCTIONS)}`;
  return { problem, hasFunctions };
}

interface Frame {
  base: { lookup(name: string): unknown };
}

/**
 * Bounds what the steps of an expression make. Only one with functions of its own can double something often enough to
 * need it; a value may weigh as much as a result may, and as much as came in besides.
 */
function watchSteps(): (step: unknown, input: unknown, frame: Frame, result: unknown) => void {
  const weigh = createScale();
  const limits = new WeakMap<object, number>();
  return (_step, _input, { base }, result) => {
    if (typeof result === "string" && result.length > MAX_TEXT) tooLong();
    if (typeof result !== "object" || result === null) return;
    const limit = limits.get(base) ?? MAX_RESULT_NODES + weigh(base.lookup("$"));
    limits.set(base, limit);
    if (weigh(result) > limit) throw new GuardError("makes a value that is too large");
  };
}

export interface Compiled {
  evaluate(input: unknown, now: number): Promise<unknown>;
}

/** Compiles an expression with all guards. `timeoutMs`: its own clock; beyond it the evaluation fails with code D1012. */
export function compileGuarded(source: string, timeoutMs: number): { ok: true; compiled: Compiled } | { ok: false; message: string } {
  let expression: ReturnType<typeof jsonataType>;
  try {
    expression = load()(source, {
      timeout: timeoutMs,
      stack: MAX_STACK,
      sequence: MAX_SEQUENCE,
      RegexEngine: LinearRegExp as unknown as RegExpConstructor,
    });
  } catch (error) {
    const { position, code, token } = error as { position?: unknown; code?: unknown; token?: unknown };
    const at = typeof position === "number" ? ` at character ${position}` : "";
    const near = typeof token === "string" && token.length < 30 ? `, near "${token}"` : "";
    return { ok: false, message: `is not valid JSONata${at}${near} (${typeof code === "string" ? code : "syntax"})` };
  }
  const { problem, hasFunctions } = lookOver(expression.ast());
  if (problem !== undefined) return { ok: false, message: problem };
  for (const [name, [implementation, signature]] of Object.entries({ ...BOUNDED, ...LISTS }))
    expression.registerFunction(name, implementation as (...args: unknown[]) => unknown, signature);
  if (hasFunctions) expression.assign(AFTER_EACH_STEP, watchSteps());
  return {
    ok: true,
    compiled: {
      evaluate: async (input, now) => {
        // Bindings of their own for every evaluation: two at the same time must not share `$$`.
        const bindings = { now: () => new Date(now).toISOString(), millis: () => now };
        return normalise(await expression.evaluate(input, bindings));
      },
    },
  };
}

/** The result as plain JSON of its own: no shared structure, no sequence marks, within bounds. */
export function normalise(value: unknown): unknown {
  let nodes = 0;
  let chars = 0;
  const copy = (at: unknown, depth: number): unknown => {
    if (++nodes > MAX_RESULT_NODES || depth > 200) throw new GuardError("gives a result that is too large");
    if (typeof at === "string") {
      chars += at.length;
      if (chars > MAX_TEXT * 2) tooLong();
      return at;
    }
    if (Array.isArray(at)) return (at as unknown[]).map((member) => copy(member, depth + 1));
    if (typeof at === "object" && at !== null) {
      const object: Record<string, unknown> = {};
      for (const [key, member] of Object.entries(at)) if (key !== "__proto__") object[key] = copy(member, depth + 1);
      return object;
    }
    return typeof at === "function" ? undefined : at;
  };
  return copy(value, 0);
}
