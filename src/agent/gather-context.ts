import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { raceAbort } from "../core/pause.ts";
import type { ContextProvider, Part, TurnInfo } from "../contract/kinds.ts";
import type { TurnExtension } from "./types.ts";

/** The most that a turn waits for text of a plugin. */
const CONTEXT_MS = 10_000;

interface ContextDeps {
  clock: Pick<Clock, "sleep">;
  log: Logger;
}

/** Checks what a provider returned. Whatever does not say that it is the operator's counts as outside text. */
function checkParts(parts: unknown, id: string): Part[] {
  if (!Array.isArray(parts)) throw new TypeError("a context provider returns a list of parts");
  return (parts as Partial<Part>[]).map(({ text, from, label = `context ${id}` }) => {
    if (typeof text !== "string") throw new TypeError("the text of a part is a string");
    return { text, from: from === "operator" ? from : "outside", label };
  });
}

async function callProvider(
  provide: ContextProvider,
  turn: Parameters<ContextProvider>[0],
  clock: ContextDeps["clock"],
): Promise<unknown> {
  const ended = new AbortController();
  const signal = AbortSignal.any([turn.signal, ended.signal]);
  void clock.sleep(CONTEXT_MS, signal).then(() => ended.abort());
  return raceAbort(
    Promise.resolve().then(() => provide({ ...turn, signal })),
    signal,
  ).finally(() => ended.abort());
}

/**
 * Asks all providers of context, at the same time, for a turn's parts. One that throws or takes 10 s adds its warning and
 * nothing else.
 */
export async function gatherContext(
  extensions: readonly TurnExtension[],
  turn: TurnInfo & { question: string; signal: AbortSignal },
  { clock, log }: ContextDeps,
): Promise<{ parts: Part[]; warnings: string[] }> {
  const warnings: string[] = [];
  const gathered = await Promise.all(
    extensions.map(async ({ id, context, warning }): Promise<Part[]> => {
      if (!context) return [];
      try {
        return checkParts(await callProvider(context, turn, clock), id);
      } catch (error) {
        log.warn(
          { err: safeError(error), context: id, runId: turn.runId },
          "a turn goes on without the text of a context provider",
        );
        warnings.push(warning);
        return [];
      }
    }),
  );
  return { parts: gathered.flat(), warnings };
}
