import { createOffences, endTurn, SYSTEM_CLOCK, takeTurn, type CpuClock } from "./cpu-time.ts";
import {
  type Evaluated,
  type Explained,
  getKnownResults,
  parsePath,
  readScope,
  jsonataInput,
  NOTES,
  type Path,
  type TemplateContext,
  renderValue,
} from "./template-context.ts";
import { compileGuarded } from "./jsonata-sandbox.ts";
import { describeFailure, isTooLong, renderFailure } from "./jsonata-errors.ts";
import { cutText } from "../core/text.ts";
import { MAX_TEXT } from "./values.ts";

/** Characters that the texts of a shortened value have together. */
const MAX_CHARS = MAX_TEXT / 4;
/** The lengths that texts are cut to: the first by which they have few enough characters together. */
const LENGTHS = [32_000, 8_000, 2_000, 500, 125];
const MIN_LENGTH = 30;
const MAX_ENTRIES = 1_000;

type Visit = (text: string) => void;

/** Visits the texts of a value that a copy of it would keep, each object once. */
function visitTexts(value: unknown, visit: Visit, seen: Set<object>): void {
  if (typeof value === "string") return visit(value);
  if (typeof value !== "object" || value === null || seen.has(value)) return;
  seen.add(value);
  const members = Array.isArray(value) ? value.slice(0, MAX_ENTRIES) : Object.values(value);
  for (const member of members) visitTexts(member, visit, seen);
}

/**
 * Copies a value with its long texts and lists cut, and a mark where something is missing, so that a message can be made of
 * a body that is too long for its expressions. Undefined if there is nothing to cut.
 */
function shorten<T>(value: T): T | undefined {
  const lengths: number[] = [];
  visitTexts(value, ({ length }) => lengths.push(length), new Set());
  const fits = (most: number): boolean =>
    lengths.reduce((sum, length) => sum + Math.min(length, most), 0) <= MAX_CHARS;
  const most = LENGTHS.find(fits) ?? MIN_LENGTH;
  const copies = new Map<object, unknown>();
  let isCut = false;
  const copy = (at: unknown): unknown => {
    if (typeof at === "string") {
      const { text, cut } = cutText(at, most);
      isCut ||= cut > 0;
      return cut > 0 ? `${text}[cut: ${cut} characters]` : at;
    }
    if (typeof at !== "object" || at === null) return at;
    const known = copies.get(at);
    if (known !== undefined) return known;
    const made: unknown = Array.isArray(at)
      ? at.slice(0, MAX_ENTRIES).map(copy)
      : Object.fromEntries(Object.entries(at).map(([name, member]) => [name, copy(member)]));
    if (Array.isArray(at) && at.length > MAX_ENTRIES) {
      isCut = true;
      (made as unknown[]).push(`[cut: ${at.length - MAX_ENTRIES} entries]`);
    }
    copies.set(at, made);
    return made;
  };
  const shortened = copy(value) as T;
  return isCut ? shortened : undefined;
}

/** What an expression gave; undefined if JSONata has to evaluate it. */
type FoundValue = { ok: true; value: unknown } | undefined;

type Evaluate = (scope: TemplateContext) => unknown;

/** Stands for a value with which JSONata has rules of its own: an object, a list, the text of a number. */
const NOT_PLAIN = Symbol("not plain");

const TOKEN =
  /\s*('[^'\\]*'|"[^"\\]*"|\?:|!=|[?:&=()]|\d{1,9}(?![\w.])|[A-Za-z_][\w.]*(?:\[-?\d+\][\w.]*)*)\s*/y;
const CONSTANTS: ReadonlyMap<string, unknown> = new Map([
  ["true", true],
  ["false", false],
  ["null", null],
]);

/** The tokens of an expression; undefined if it holds any that these forms do not have. */
function tokenize(source: string): string[] | undefined {
  const tokens: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < source.length) {
    const found = TOKEN.exec(source);
    if (!found) return undefined;
    tokens.push(found[1] as string);
  }
  return tokens;
}

/** A text, a number or a constant, or a path that leads to a plain value. */
function compileOperand(token: string): Evaluate | undefined {
  if (token.startsWith("'") || token.startsWith('"')) return () => token.slice(1, -1);
  if (/^\d/.test(token)) return () => Number(token);
  if (CONSTANTS.has(token)) return () => CONSTANTS.get(token);
  const path = parsePath(token);
  return (
    path &&
    ((scope) => {
      const value = readScope(path, scope);
      return typeof value === "object" && value !== null ? NOT_PLAIN : value;
    })
  );
}

/** Joins values as JSONata's `&` does: what is missing is empty, null is the word. */
function joinText(values: readonly unknown[]): unknown {
  let text = "";
  for (const value of values) {
    if (value === NOT_PLAIN || (typeof value === "number" && !Number.isSafeInteger(value)))
      return NOT_PLAIN;
    text += value === null ? "null" : renderValue(value);
  }
  return text;
}

/** Compares as JSONata does: with what is missing, neither `=` nor `!=` holds. */
function compare(left: unknown, right: unknown, equal: boolean): unknown {
  if (left === NOT_PLAIN || right === NOT_PLAIN) return NOT_PLAIN;
  return left !== undefined && right !== undefined && (left === right) === equal;
}

/** Compiles tokens by JSONata's precedence: `&`, then `=` and `!=`, then `?:`, then `? :`. Undefined if they do not fit. */
class Parser {
  readonly #tokens: readonly string[];
  #at = 0;

  constructor(tokens: readonly string[]) {
    this.#tokens = tokens;
  }

  parse(): Evaluate | undefined {
    const expression = this.#conditional();
    return this.#at === this.#tokens.length ? expression : undefined;
  }

  #take(token: string): boolean {
    const found = this.#tokens[this.#at] === token;
    if (found) this.#at++;
    return found;
  }

  #conditional(): Evaluate | undefined {
    const condition = this.#choice();
    if (!condition || !this.#take("?")) return condition;
    const then = this.#conditional();
    const otherwise = this.#take(":") ? this.#conditional() : undefined;
    if (!then || !otherwise) return undefined;
    return (scope) => {
      const value = condition(scope);
      if (value === NOT_PLAIN) return value;
      return value ? then(scope) : otherwise(scope);
    };
  }

  #choice(): Evaluate | undefined {
    const value = this.#comparison();
    if (!value || !this.#take("?:")) return value;
    const other = this.#conditional();
    return other && ((scope) => value(scope) || other(scope));
  }

  #comparison(): Evaluate | undefined {
    const left = this.#text();
    const equal = this.#take("=");
    if (!left || !(equal || this.#take("!="))) return left;
    const right = this.#text();
    return right && ((scope) => compare(left(scope), right(scope), equal));
  }

  #text(): Evaluate | undefined {
    const operands = [this.#operand()];
    while (this.#take("&")) operands.push(this.#operand());
    const compiled = operands.filter((operand) => operand !== undefined);
    if (compiled.length < operands.length) return undefined;
    return compiled.length === 1
      ? compiled[0]
      : (scope) => joinText(compiled.map((operand) => operand(scope)));
  }

  #operand(): Evaluate | undefined {
    if (!this.#take("(")) return compileOperand(this.#tokens[this.#at++] ?? "");
    const inner = this.#conditional();
    return this.#take(")") ? inner : undefined;
  }
}

/**
 * Compiles expressions of paths, texts, `&`, `=`, `!=`, `?:`, `? :` and brackets, by which templates write around a field
 * that may be missing, without JSONata, which takes about twenty times as long for them. Undefined for any other
 * expression. The function gives what JSONata gives, or undefined if the values are not plain: then JSONata has to.
 */
export function compileShortcut(
  source: string,
): ((scope: TemplateContext) => FoundValue) | undefined {
  const tokens = tokenize(source);
  const evaluate = tokens && new Parser(tokens).parse();
  if (!evaluate) return undefined;
  return (scope) => {
    const value = evaluate(scope);
    return value === NOT_PLAIN ? undefined : { ok: true, value };
  };
}

/** Processor time in the gateway's own process, where an expression that runs holds up everything else. */
const IN_PROCESS_MS = 10;
/** More than one step past the limit: the step met no guard. */
const LONG_STEP_MS = 2 * IN_PROCESS_MS;

/** Runs an expression where it can harm nothing but itself: in a child process. */
export type JsonataRunner = (
  source: string,
  input: Record<string, unknown>,
  now: number,
) => Promise<Explained>;

export interface Expression {
  readonly source: string;
  /** The path, if it is a plain one. */
  readonly path?: Path;
  evaluate(scope: TemplateContext): Evaluated | Promise<Evaluated>;
  /** What it gives, if it was evaluated for the event before, or is a plain path. Undefined if JSONata would have to run. */
  known(scope: TemplateContext): Evaluated | undefined;
}

export interface ExpressionOptions {
  runner?: JsonataRunner;
  clock?: CpuClock;
  /** The field that the expression stands in, for the operator. */
  field?: string;
  /** Shortens the input if it is too long for the expression, instead of failing. */
  shortens?: boolean;
}

const failed = (error: unknown, source: string): Explained => ({
  ok: false,
  message: renderFailure(error),
  error: describeFailure(error, source),
  ...(isTooLong(error) && { isTooLong: true }),
});

/** Takes what is for the operator alone out of a result, and keeps it. */
function note(
  { error, isTooLong: _isTooLong, ...result }: Explained,
  { [NOTES]: notes, index }: TemplateContext,
  field: string,
): Evaluated {
  if (error) notes?.add({ field, ...(index === undefined ? {} : { item: index }), error });
  return result;
}

/** Runs an expression, or takes what the same text gave for the event before. */
async function runOnce(
  key: string,
  scope: TemplateContext,
  run: () => Promise<Explained>,
): Promise<Explained> {
  const results = getKnownResults(scope);
  const known = results?.get(key);
  if (known) return known;
  const running = run();
  results?.set(key, running);
  const result = await running;
  results?.set(key, result);
  return result;
}

function getSettled(source: string, scope: TemplateContext): Evaluated | undefined {
  const known = getKnownResults(scope)?.get(source);
  return known instanceof Promise ? undefined : known;
}

/**
 * Compiles an expression over the names of a scope. A plain path is read directly, without JSONata; anything else runs
 * behind guards in this process. A single evaluation that exceeds its processor time is repeated through `runner`, and all
 * evaluations go through it while the expression is excluded from this process.
 */
export function compileExpression(
  source: string,
  { runner, clock = SYSTEM_CLOCK, field = "", shortens = false }: ExpressionOptions = {},
):
  | { ok: true; expression: Expression }
  | { ok: false; message: string; detail?: string; offset?: number } {
  if (source.trim() === "") return { ok: false, message: "is empty" };
  const path = parsePath(source);
  if (path) {
    const read = (scope: TemplateContext): Evaluated => ({
      ok: true,
      value: readScope(path, scope),
    });
    return { ok: true, expression: { source, path, evaluate: read, known: read } };
  }
  const guarded = compileGuarded(source, IN_PROCESS_MS, clock);
  if (!guarded.ok) return guarded;
  const { compiled } = guarded;
  const offences = createOffences(clock);
  const runWith = async (input: Record<string, unknown>, now: number): Promise<Explained> => {
    if (runner && offences.isExcluded()) return runner(source, input, now);
    const turn = takeTurn();
    if (turn) await turn;
    let isCutOff = false;
    try {
      return { ok: true, value: await compiled.evaluate(input, now) };
    } catch (error) {
      isCutOff = (error as { code?: unknown }).code === "D1012";
      if (!isCutOff || !runner) return failed(error, source);
    } finally {
      offences.add(isCutOff || compiled.limit.spent() > LONG_STEP_MS);
      endTurn();
    }
    return runner(source, input, now);
  };
  const evaluate = async (scope: TemplateContext): Promise<Evaluated> => {
    const result = await runOnce(source, scope, () => runWith(jsonataInput(scope), scope.now));
    const input = shortens && result.isTooLong ? shorten(jsonataInput(scope)) : undefined;
    if (!input) return note(result, scope, field);
    // Under a name of its own: no condition and no key may use what was made of a shortened input.
    const shortened = await runOnce(`shortened ${source}`, scope, () => runWith(input, scope.now));
    return note(shortened, scope, field);
  };
  const shortcut = compileShortcut(source);
  const expression: Expression = {
    source,
    evaluate: shortcut ? (scope) => shortcut(scope) ?? evaluate(scope) : evaluate,
    known: (scope) => shortcut?.(scope) ?? getSettled(source, scope),
  };
  return { ok: true, expression };
}

/** Evaluates an expression inside a child process: the same guards with a limit of the caller's. */
export async function evaluateOutside(
  source: string,
  input: unknown,
  now: number,
  limitMs: number,
): Promise<Explained> {
  const compiled = compileGuarded(source, limitMs);
  if (!compiled.ok) return compiled;
  try {
    return { ok: true, value: await compiled.compiled.evaluate(input, now) };
  } catch (error) {
    return failed(error, source);
  }
}
