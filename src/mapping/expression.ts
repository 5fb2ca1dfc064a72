import { GuardError } from "./functions.ts";
import { compileGuarded, IN_PROCESS_MS } from "./guards.ts";
import { parsePath, readScope } from "./path.ts";
import { jsonataInput, type Scope } from "./scope.ts";
import { compileShortcut } from "./shortcut.ts";

export type Evaluated = { ok: true; value: unknown } | { ok: false; message: string };

/** Runs an expression where it can harm nothing but itself: in a child process. */
export type JsonataRunner = (source: string, input: Record<string, unknown>, now: number) => Promise<Evaluated>;

export interface Expression {
  readonly source: string;
  evaluate(scope: Scope): Evaluated | Promise<Evaluated>;
}

export interface ExpressionOptions {
  runner?: JsonataRunner;
}

/** A failure in words of our own: JSONata's messages quote the input. */
export function renderFailure(error: unknown): string {
  if (error instanceof GuardError) return `the expression ${error.message}`;
  const { code } = error as { code?: unknown };
  if (code === "D1012") return "the expression took too long";
  if (code === "D1011") return "the expression calls itself too deeply";
  if (code === "D2015") return "the expression makes a list that is too long";
  return `the expression failed${typeof code === "string" && /^[A-Z]\d{4}$/.test(code) ? ` (JSONata ${code})` : ""}`;
}

/**
 * Compiles an expression over the names of a scope. A plain path is read at once, without JSONata; anything else runs
 * behind guards in this process, and through `runner` from the first time on that it took too long.
 */
export function compileExpression(
  source: string,
  options: ExpressionOptions = {},
): { ok: true; expression: Expression } | { ok: false; message: string } {
  if (source.trim() === "") return { ok: false, message: "is empty" };
  const path = parsePath(source);
  if (path) return { ok: true, expression: { source, evaluate: (scope) => ({ ok: true, value: readScope(path, scope) }) } };
  const compiled = compileGuarded(source, IN_PROCESS_MS);
  if (!compiled.ok) return compiled;
  let outside = false;
  const evaluate = async (scope: Scope): Promise<Evaluated> => {
    const input = jsonataInput(scope);
    if (outside && options.runner) return options.runner(source, input, scope.now);
    // An evaluation gives nothing else a turn: the time from its beginning to its end is its own.
    const begun = performance.now();
    try {
      return { ok: true, value: await compiled.compiled.evaluate(input, scope.now) };
    } catch (error) {
      if ((error as { code?: unknown }).code === "D1012" && options.runner) {
        outside = true;
        return options.runner(source, input, scope.now);
      }
      return { ok: false, message: renderFailure(error) };
    } finally {
      // One long step meets no guard.
      if (performance.now() - begun > 2 * IN_PROCESS_MS) outside = true;
    }
  };
  const shortcut = compileShortcut(source);
  return { ok: true, expression: { source, evaluate: shortcut ? (scope) => shortcut(scope) ?? evaluate(scope) : evaluate } };
}

/** Evaluates an expression inside a child process: the same guards with a clock of the caller's. */
export async function evaluateOutside(source: string, input: unknown, now: number, timeoutMs: number): Promise<Evaluated> {
  const compiled = compileGuarded(source, timeoutMs);
  if (!compiled.ok) return compiled;
  try {
    return { ok: true, value: await compiled.compiled.evaluate(input, now) };
  } catch (error) {
    return { ok: false, message: renderFailure(error) };
  }
}
