import { createOffences, endTurn, SYSTEM_CLOCK, takeTurn, type CpuClock } from "./cpu-time.ts";
import {
  compilePath,
  getKnownResults,
  jsonataInput,
  NOTES,
  parsePath,
  readScope,
  type Evaluated,
  type Explained,
  type Expression,
  type TemplateContext,
} from "../template-context.ts";
import { compileGuarded } from "./sandbox.ts";
import { describeFailure, isTooLong, renderFailure } from "./errors.ts";
import { cutText } from "../../core/text.ts";
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

const TEXT = /^(?:'([^'\\]*)'|"([^"\\]*)")$/;
/** A path as JSONata reads it too: there a dash subtracts, and three names are constants. */
const NAMES = /^(?!(?:true|false|null)$)[A-Za-z_][\w.]*(?:\[-?\d+\][\w.]*)*$/;

/** Compiles a text in quotes, or a path. */
function compileOperand(source: string): ((scope: TemplateContext) => unknown) | undefined {
  const [quoted, ...texts] = TEXT.exec(source) ?? [];
  if (quoted !== undefined) return () => texts.find((text) => text !== undefined);
  const path = NAMES.test(source) ? parsePath(source) : undefined;
  return path && ((scope) => readScope(path, scope));
}

/**
 * Compiles paths and texts with `?:` between them, by which templates write around a field that may be missing, without
 * JSONata, which takes about twenty times as long for them. The function gives undefined for a list or an object: then
 * JSONata has to decide.
 */
function compileChoice(
  source: string,
): ((scope: TemplateContext) => Evaluated | undefined) | undefined {
  const compiled = source.split("?:").map((part) => compileOperand(part.trim()));
  const operands = compiled.filter((operand) => operand !== undefined);
  if (operands.length < compiled.length) return undefined;
  return (scope) => {
    let value: unknown;
    for (const operand of operands) {
      value = operand(scope);
      if (typeof value === "object" && value !== null) return undefined;
      if (value) break;
    }
    return { ok: true, value };
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

export interface ExpressionOptions {
  runner?: JsonataRunner | undefined;
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
  const plain = compilePath(source);
  if (plain) return { ok: true, expression: plain };
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
  const choice = compileChoice(source);
  const expression: Expression = {
    source,
    computes: compiled.computes,
    evaluate: choice ? (scope) => choice(scope) ?? evaluate(scope) : evaluate,
    known: (scope) => choice?.(scope) ?? getSettled(source, scope),
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
