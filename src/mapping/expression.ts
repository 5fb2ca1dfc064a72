import { createOffences, endTurn, SYSTEM_CLOCK, takeTurn, type CpuClock } from "./cpu-time.ts";
import type { Evaluated, Explained } from "./evaluated.ts";
import { compileGuarded } from "./jsonata-sandbox.ts";
import { describeFailure, isTooLong, renderFailure } from "./jsonata-errors.ts";
import {
  getKnownResults,
  parsePath,
  readScope,
  jsonataInput,
  NOTES,
  type Path,
  type TemplateContext,
} from "./template-context.ts";
import { compileShortcut } from "./shortcut.ts";
import { shorten } from "./shorten.ts";

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
