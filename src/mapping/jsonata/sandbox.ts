import { createRequire } from "node:module";
import type jsonataType from "jsonata";
import type { JsonataOptions } from "jsonata";
import { didYouMean } from "../../config/suggest.ts";
import { isHeld } from "../../core/json.ts";
import { createCpuLimit, SYSTEM_CLOCK, type CpuClock, type CpuLimit } from "./cpu-time.ts";
import { EVENT_TIME, FIELD_AS_TEXT, FUNCTIONS, getFunctions } from "./functions.ts";
import { placeIn } from "../excerpt.ts";
import { AFTER_EACH_STEP, type Frame } from "./internals.ts";
import { describeSyntaxError } from "./errors.ts";
import { compileRegex, LinearRegExp } from "../regex.ts";
import {
  createScale,
  LengthError,
  MAX_RESULT_NODES,
  MAX_SEQUENCE,
  MAX_TEXT,
  normalise,
  tooLong,
} from "./values.ts";

const require = createRequire(import.meta.url);
let library: typeof jsonataType | undefined;
/** Loaded when the first expression that is no plain path is compiled. */
const load = (): typeof jsonataType => (library ??= require("jsonata") as typeof jsonataType);

const MAX_STACK = 200;
const REFUSED = new Set(["eval", "random", "shuffle"]);

interface Node {
  type?: string;
  value?: unknown;
  procedure?: Node;
  arguments?: Node[];
  lhs?: unknown;
  [member: string]: unknown;
}

interface Findings {
  /** `token`: the part of the source that is the reason. */
  problem: { message: string; token?: string } | undefined;
  /** True if it defines functions of its own. */
  hasFunctions: boolean;
  /** The names of all variables in it. */
  variables: ReadonlySet<string>;
}

/** The variables that a node gives a value: by `:=`, by `@` and `#`, or as arguments of a function. */
function getBoundNames(node: Node): string[] {
  const ofStep = [node["focus"], node["index"]].filter((name) => typeof name === "string");
  if (ofStep.length > 0) return ofStep;
  if (node.type === "lambda")
    return (node.arguments ?? []).map((argument) => String(argument.value));
  const target = node.type === "bind" ? (node.lhs as Node | undefined) : undefined;
  return target?.type === "variable" ? [String(target.value)] : [];
}

/**
 * Makes a text of a whole number that JavaScript cannot hold, such as an id, as it is in a body: the AST has it rounded. It keeps
 * the position behind a literal.
 */
function keepDigits(node: Node, source: string): void {
  const written = /\d+$/.exec(source.slice(0, Number(node["position"])))?.[0];
  if (written === undefined || Number(written) !== Math.abs(Number(node.value)) || isHeld(written))
    return;
  node.type = "string";
  node.value = Number(node.value) < 0 ? `-${written}` : written;
}

/** The regular expressions of a part of an AST, in the order of the text. */
function listRegexes(part: unknown): Node[] {
  if (typeof part !== "object" || part === null || part instanceof RegExp) return [];
  return (part as Node).type === "regex"
    ? [part as Node]
    : Object.values(part).flatMap(listRegexes);
}

/** Puts the regular expressions of `a ?: b` back into its condition: JSONata copies `a` as JSON, which loses them. */
function restoreRegexes(part: unknown): void {
  if (typeof part !== "object" || part === null || part instanceof RegExp) return;
  const node = part as Node;
  for (const member of Object.values(node)) restoreRegexes(member);
  if (node.type !== "condition") return;
  const kept = listRegexes(node["then"]);
  for (const [index, regex] of listRegexes(node["condition"]).entries())
    if (!(regex.value instanceof RegExp)) regex.value = kept[index]?.value;
}

/** The value that an expression is evaluated on: `$`. */
const CONTEXT: Node = { type: "variable", value: "" };

/** The functions that compute a number, and never hand on one that they were given. */
const COMPUTING = new Set(
  "average ceil count floor length millis power round sqrt sum toMillis".split(" "),
);
const ARITHMETIC = new Set(["+", "-", "*", "/", "%"]);

/** Returns whether the number that an expression gives is computed, and is none of the input. */
function isComputed({ type, value, procedure, steps, expressions, rhs }: Node): boolean {
  if (type === "function") return COMPUTING.has(String(procedure?.value));
  if (type === "binary") return ARITHMETIC.has(String(value));
  const last = type === "apply" ? rhs : ((steps ?? expressions) as Node[] | undefined)?.at(-1);
  return type === "number" || (typeof last === "object" && isComputed(last as Node));
}

/** Returns whether a step of a path may be taken twice: it costs little, and calls nothing. */
function isPlainStep({ type, predicate, stages }: Node): boolean {
  const filters = [predicate, stages].flat() as ({ expr?: Node } | undefined)[];
  const isPlain = filters.every((filter) => !filter || filter.expr?.type === "number");
  return isPlain && (type === "name" || type === "variable");
}

/** Calls a function that writes what a node gives as text. */
function toTextCall(node: Node): Node {
  const call = (name: string, given: Node[]): Node => ({
    type: "function",
    value: "(",
    procedure: { type: "variable", value: name },
    arguments: given,
  });
  const steps = node.type === "path" && node["tuple"] !== true ? (node["steps"] as Node[]) : [];
  const last = steps.at(-1);
  if (last?.type !== "name" || !steps.every(isPlainStep)) return call("string", [node]);
  const holder = steps.length === 1 ? CONTEXT : { ...node, steps: steps.slice(0, -1) };
  return call(FIELD_AS_TEXT, [node, holder, { type: "string", value: last.value }]);
}

/** Returns whether an operand of `&` may be a number of the body. What an expression's own function gives is left as it is. */
function mayBeNumber(operand: Node): boolean {
  const { type, value, procedure } = operand;
  if (type === "function" && !FUNCTIONS.has(String(procedure?.value))) return false;
  return type !== "string" && !(type === "binary" && value === "&") && !isComputed(operand);
}

/**
 * Lets numbers stay as they are written in the body when `&` and `$string` make text of them: JSONata writes 19.90 as 19.9.
 * `applied`: the functions behind `~>`, which have one argument more.
 */
function keepSpellings(node: Node, applied: Set<unknown>): void {
  const { type, value, procedure, arguments: [only, ...others] = [] } = node;
  if (type === "apply") applied.add(node["rhs"]);
  const isString = type === "function" && procedure?.value === "string" && !applied.has(node);
  if (isString && only && others.length === 0) Object.assign(node, toTextCall(only));
  if (type !== "binary" || value !== "&") return;
  for (const side of ["lhs", "rhs"]) {
    const operand = node[side] as Node;
    if (mayBeNumber(operand)) node[side] = toTextCall(operand);
  }
}

/** The parts of a path below the event: all steps, or those behind `$$`, or behind `$` if that is the event. */
function getEventSteps(node: Node | undefined, isRoot: boolean): Node[] {
  const [first, ...later] = node?.type === "path" ? (node["steps"] as Node[]) : [];
  if (first?.type !== "variable") return first && isRoot ? [first, ...later] : [];
  return first.value === "$" || (isRoot && first.value === "") ? later : [];
}

/** The part of a node that names a header: `headers.x`, `$lookup(headers, "x")`. */
function getHeaderName(node: Node, isRoot: boolean): Node | undefined {
  const [of, key] = node.procedure?.value === "lookup" ? (node.arguments ?? []) : [];
  const [kind, name = key] = getEventSteps(of ?? node, isRoot);
  return kind?.value === "headers" ? name : undefined;
}

/** Writes the names of headers in lower case, as the event has them. `isRoot`: the context is the event, and no part of it. */
function lowerHeaderNames(part: unknown, isRoot = true): void {
  if (typeof part !== "object" || part === null || part instanceof RegExp) return;
  const node = part as Node;
  const name = getHeaderName(node, isRoot);
  if (name && /^(?:name|string)$/.test(String(name.type)))
    name.value = String(name.value).toLowerCase();
  const [first, ...later] = node.type === "path" ? (node["steps"] as Node[]) : [];
  lowerHeaderNames(first, isRoot && first?.type !== "name");
  for (const member of first ? later : Object.values(node))
    lowerHeaderNames(member, isRoot && !first);
}

const NAMES_OF_FUNCTIONS = Array.from(FUNCTIONS, (name) => `$${name}`);
const TYPOGRAPHIC = /^[\u2018-\u201f\u00ab\u00bb]/;

/** Finds a text that is none, or that is added as a number. */
function findMisreadText({ type, value, lhs, rhs }: Node): Findings["problem"] {
  const sides = [lhs, rhs] as (Node | undefined)[];
  if (value === "+" && sides.some((side) => side?.type === "string"))
    return { message: "`+` adds numbers; join texts with `&`", token: "+" };
  if (type === "name" && TYPOGRAPHIC.test(String(value)))
    return { message: "a text stands in straight quotes, ' or \"", token: String(value) };
  return undefined;
}

/** Finds a name that JSONata does not read as one: `headers["x-id"]` is all headers, and `headers.x-id` a difference. */
function findMisreadName(node: Node, source: string): Findings["problem"] {
  const { expr, lhs } = node as { expr?: Node; lhs?: { steps?: Node[] } };
  if (node.type === "filter" && expr?.type === "string")
    return { message: `a text in [ ] is no name; write .\`${String(expr.value)}\` for the field` };
  const root = node.type === "binary" && node.value === "-" ? lhs?.steps?.[0]?.value : undefined;
  const end = Number(node["position"]) + 1;
  if ((root !== "headers" && root !== "query") || !/\w-[A-Z_]/i.test(source.slice(end - 3, end)))
    return undefined;
  return { message: `the dash subtracts; write a name with dashes as in ${root}.\`x-id\`` };
}

/** The name of the function that a node calls: with `$`, or that of a field, which holds none. */
function getCalledName({ type, procedure }: Node): string | undefined {
  if (type !== "function" && type !== "partial") return undefined;
  if (procedure?.type === "variable") return `$${String(procedure.value)}`;
  const steps = procedure?.type === "path" ? (procedure["steps"] as Node[]) : [];
  return steps.length === 0 ? undefined : String(steps.at(-1)?.value);
}

/** Looks over an expression when it is compiled: what would fail or harm only when it runs is said now. */
function lookOver(ast: unknown, source: string): Findings {
  // The transform operator copies with `$clone`.
  const variables = new Set(["clone"]);
  const bound = new Set<string>();
  const calls: string[] = [];
  let problem: Findings["problem"];
  let hasFunctions = false;
  const seen = new Set<object>();
  const applied = new Set<unknown>();
  const visit = (value: unknown): void => {
    if (typeof value !== "object" || value === null || seen.has(value)) return;
    seen.add(value);
    if (value instanceof RegExp) {
      const compiled = compileRegex(value.source, value.flags);
      if (!compiled.ok)
        problem ??= {
          message: `the regular expression /${value.source.slice(0, 60)}/: ${compiled.message}`,
        };
      return;
    }
    const node = value as Node;
    problem ??= findMisreadText(node) ?? findMisreadName(node, source);
    if (node.type === "number") keepDigits(node, source);
    keepSpellings(node, applied);
    for (const name of getBoundNames(node)) bound.add(name);
    hasFunctions ||= node.type === "lambda";
    const called = getCalledName(node);
    if (called !== undefined) calls.push(called);
    if (node.type === "variable" && typeof node.value === "string") {
      variables.add(node.value);
      if (REFUSED.has(node.value))
        problem ??= { message: `$${node.value} is not available here`, token: `$${node.value}` };
    }
    for (const member of Object.values(node)) visit(member);
  };
  visit(ast);
  const isUnknown = (name: string): boolean =>
    !FUNCTIONS.has(name) && name !== FIELD_AS_TEXT && !bound.has(name);
  // An object with a function in it: a match of a regular expression, or made by an expression with functions of its own.
  const isMethod = (name: string): boolean => hasFunctions || name === "next";
  const unknown = calls.find((name) =>
    name.startsWith("$") ? isUnknown(name.slice(1)) : !isMethod(name),
  );
  if (unknown !== undefined) {
    const reason = unknown.startsWith("$") ? "" : "; names of functions begin with $";
    const hint = didYouMean(`$${unknown.replace("$", "")}`, NAMES_OF_FUNCTIONS);
    problem ??= { message: `there is no function ${unknown}${reason}.${hint}`, token: unknown };
  }
  const unset = [...variables].find((name) => /[^$]/.test(name) && isUnknown(name));
  if (unset !== undefined)
    problem ??= {
      message: `there is no variable $${unset}. Write \`payload\`, \`headers\` and fields without $, and a field whose name has a $ in backticks`,
      token: `$${unset}`,
    };
  return { problem, hasFunctions, variables };
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
    if (weigh(result) > limit) throw new LengthError("makes a value that is too large");
  };
}

/** The options of an expression. JSONata reads `timeout` before every step, and hands all of them to functions. */
function buildOptions(limit: CpuLimit): JsonataOptions & { limit: CpuLimit } {
  class RegexEngine extends LinearRegExp {
    override exec(value: unknown): RegExpExecArray | null {
      limit.check();
      return super.exec(value);
    }
  }
  return {
    stack: MAX_STACK,
    sequence: MAX_SEQUENCE,
    RegexEngine: RegexEngine as unknown as RegExpConstructor,
    limit,
    get timeout() {
      limit.checkSometimes();
      return 0;
    },
  };
}

export interface Compiled {
  /** True if the number that it gives is none of the input. */
  readonly computes: boolean;
  /** Evaluates; one evaluation at a time, as the limit measures one. */
  evaluate(input: unknown, now: number): Promise<unknown>;
  readonly limit: CpuLimit;
}

/** Compiles an expression with all guards. An evaluation that takes more than `limitMs` of processor time fails with code D1012. */
export function compileGuarded(
  source: string,
  limitMs: number,
  clock: CpuClock = SYSTEM_CLOCK,
):
  | { ok: true; compiled: Compiled }
  | { ok: false; message: string; detail?: string; offset?: number } {
  const limit = createCpuLimit(limitMs, clock);
  let expression: ReturnType<typeof jsonataType>;
  try {
    expression = load()(source, buildOptions(limit));
  } catch (error) {
    return { ok: false, ...describeSyntaxError(error, source) };
  }
  const ast = expression.ast();
  restoreRegexes(ast);
  lowerHeaderNames(ast);
  const { problem, hasFunctions, variables } = lookOver(ast, source);
  if (problem !== undefined) {
    const at = problem.token === undefined ? -1 : source.indexOf(problem.token);
    return {
      ok: false,
      message: problem.message,
      ...(at < 0 ? {} : { detail: placeIn(source, at).excerpt, offset: at }),
    };
  }
  for (const [name, definition] of getFunctions(load()))
    if (variables.has(name)) expression.assign(name, definition);
  if (hasFunctions) expression.assign(AFTER_EACH_STEP, watchSteps());
  return {
    ok: true,
    compiled: {
      computes: isComputed(ast as unknown as Node),
      limit,
      evaluate: async (input, now) => {
        limit.start();
        // Bindings of their own for every evaluation: two at the same time must not share `$$`.
        return normalise(await expression.evaluate(input, { [EVENT_TIME]: now }));
      },
    },
  };
}
