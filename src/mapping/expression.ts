import { createOffences, endTurn, SYSTEM_CLOCK, takeTurn, type Clock } from "./cpu-time.ts";
import { compileGuarded } from "./guards.ts";
import { parsePath, readScope } from "./path.ts";
import { jsonataInput, type Scope } from "./scope.ts";
import { compileShortcut } from "./shortcut.ts";
import { GuardError } from "./values.ts";

/** Processor time in the gateway's own process, where an expression that runs holds up everything else. */
const IN_PROCESS_MS = 10;
/** More than one step past the limit: the step met no guard. */
const LONG_STEP_MS = 2 * IN_PROCESS_MS;

export type Evaluated = { ok: true; value: unknown } | { ok: false; message: string };

/** Runs an expression where it can harm nothing but itself: in a child process. */
export type JsonataRunner = (source: string, input: Record<string, unknown>, now: number) => Promise<Evaluated>;

export interface Expression {
  readonly source: string;
  evaluate(scope: Scope): Evaluated | Promise<Evaluated>;
}

export interface ExpressionOptions {
  runner?: JsonataRunner;
  clock?: Clock;
}

/** Renders a failure in words of our own: JSONata's messages quote the input. Names of functions come from the source. */
function renderFailure(error: unknown): string {
  if (error instanceof GuardError) return `the expression ${error.message}`;
  const { code, token, index } = error as { code?: unknown; token?: unknown; index?: unknown };
  if (code === "D1012") return "the expression took too long";
  if (code === "D1011") return "the expression calls itself too deeply";
  if (code === "D2015") return "the expression makes a list that is too long";
  const name = typeof token === "string" && /^\w+$/.test(token) ? ` in $${token}` : "";
  if (typeof code !== "string" || !/^[A-Z]\d{4}$/.test(code)) return `the expression failed${name}`;
  // Codes of the signature: the others count members of a list too.
  const argument = name !== "" && code.startsWith("T04") && typeof index === "number" ? `, argument ${index}` : "";
  return `the expression failed${name}${argument} (JSONata ${code})`;
}

/**
 * Compiles an expression over the names of a scope. A plain path is read at once, without JSONata; anything else runs
 * behind guards in this process. A single evaluation that exceeds its processor time is repeated through `runner`, and all
 * evaluations go through it while the expression is excluded from this process.
 */
export function compileExpression(
  source: string,
  { runner, clock = SYSTEM_CLOCK }: ExpressionOptions = {},
): { ok: true; expression: Expression } | { ok: false; message: string } {
  if (source.trim() === "") return { ok: false, message: "is empty" };
  const path = parsePath(source);
  if (path) return { ok: true, expression: { source, evaluate: (scope) => ({ ok: true, value: readScope(path, scope) }) } };
  const guarded = compileGuarded(source, IN_PROCESS_MS, clock);
  if (!guarded.ok) return guarded;
  const { compiled } = guarded;
  const offences = createOffences(clock);
  const evaluate = async (scope: Scope): Promise<Evaluated> => {
    const input = jsonataInput(scope);
    if (runner && offences.isExcluded()) return runner(source, input, scope.now);
    const turn = takeTurn();
    if (turn) await turn;
    let isCutOff = false;
    try {
      return { ok: true, value: await compiled.evaluate(input, scope.now) };
    } catch (error) {
      isCutOff = (error as { code?: unknown }).code === "D1012";
      if (!isCutOff || !runner) return { ok: false, message: renderFailure(error) };
    } finally {
      if (isCutOff || compiled.limit.spent() > LONG_STEP_MS) offences.add();
      endTurn();
    }
    return runner(source, input, scope.now);
  };
  const shortcut = compileShortcut(source);
  return { ok: true, expression: { source, evaluate: shortcut ? (scope) => shortcut(scope) ?? evaluate(scope) : evaluate } };
}

/** Evaluates an expression inside a child process: the same guards with a limit of the caller's. */
export async function evaluateOutside(source: string, input: unknown, now: number, limitMs: number): Promise<Evaluated> {
  const compiled = compileGuarded(source, limitMs);
  if (!compiled.ok) return compiled;
  try {
    return { ok: true, value: await compiled.compiled.evaluate(input, now) };
  } catch (error) {
    return { ok: false, message: renderFailure(error) };
  }
}
