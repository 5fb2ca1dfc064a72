import { useEffect, useRef, useState } from "preact/hooks";
import { ask, askLines } from "../../api.ts";
import { useResource, useTries } from "../../resource.ts";
import type { Explanation } from "../../../../src/operate/records/explain.ts";
import type { AnswerLine } from "../../../../src/operate/workbench.ts";
import type { WhatIfCounts, WhatIfReport } from "../../../../src/operate/what-if/what-if.ts";
import type { Change, TextEvaluation } from "./types.ts";

/** The pauses in typing after which the text is evaluated, and the last events are compared with it. */
const EVALUATE_MS = 200;
const COMPARE_MS = 500;

/** The gateway's evaluation of the text in the editor. */
export interface Evaluated {
  /** The newest answer; its problems are those of the text. */
  now: TextEvaluation | null;
  /** The last answer without problems: it stays, greyed, while the text has some. */
  good: TextEvaluation | null;
  error: string | null;
  /** A newer answer is pending. */
  busy: boolean;
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
const isEnded = (error: unknown): boolean =>
  error instanceof DOMException && error.name === "AbortError";

/** Evaluates a text against an event, again after each change. `turn` counts up to evaluate without waiting. */
export function useEvaluation(
  change: Change | null,
  event: string | undefined,
  turn: number,
): Evaluated {
  const [state, setState] = useState<Evaluated>({
    now: null,
    good: null,
    error: null,
    busy: false,
  });
  const tries = useTries(state.error !== null);
  const last = useRef(turn);
  const written = JSON.stringify(change);
  useEffect(() => {
    if (change === null) return;
    const abort = new AbortController();
    const isAsked = last.current !== turn;
    last.current = turn;
    const evaluate = async (): Promise<void> => {
      setState((before) => ({ ...before, busy: true }));
      try {
        const body = { change, ...(event === undefined ? {} : { event }) };
        const { evaluation } = await ask<{ evaluation: TextEvaluation }>("/changes/evaluate", {
          method: "POST",
          body,
          signal: abort.signal,
        });
        const isGood = evaluation.problems.length === 0;
        setState(({ good }) => ({
          now: evaluation,
          good: isGood ? evaluation : good,
          error: null,
          busy: false,
        }));
      } catch (error) {
        if (!isEnded(error))
          setState((before) => ({ ...before, error: messageOf(error), busy: false }));
      }
    };
    const timer = setTimeout(() => void evaluate(), isAsked ? 0 : EVALUATE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [written, event, turn, tries]);
  return state;
}

/** Shows how the mappings decided about an event, for a mapping whose text is read-only. */
export function useExplained(event: string | null): Evaluated {
  const { data, error } = useResource<{ explanation: Explanation }>(
    event === null ? null : `/events/${event}/explain`,
  );
  if (!data) return { now: null, good: null, error: error?.message ?? null, busy: false };
  const { evaluation, note } = data.explanation;
  const shown = {
    mapping: null,
    problems: [],
    warnings: [],
    marks: [],
    tests: null,
    result: evaluation,
    note,
  };
  return { now: null, good: shown, error: null, busy: false };
}

/** The changes that the text would make to the last events. */
export interface Compared {
  /** Null before the first comparison. */
  report: (WhatIfCounts & Partial<WhatIfReport>) | null;
  /** When the oldest of the events came in; null until all are compared. */
  oldest: string | null;
  complete: boolean;
  stale: boolean;
  error: string | null;
}

const NONE: Compared = {
  report: null,
  oldest: null,
  complete: false,
  stale: true,
  error: null,
};

/** When the oldest of the events that were compared came in. */
const toOldest = ({ periodMs }: WhatIfReport): string =>
  new Date(Date.now() - periodMs).toISOString();

/** Compares the last events with a text, again after each change. A change of null leaves what is shown as it is, as stale. */
export function useComparison(
  change: Change | null,
  last: number,
  path: string | undefined,
): Compared {
  const [state, setState] = useState<Compared>(NONE);
  const tries = useTries(state.error !== null);
  const written = JSON.stringify(change);
  useEffect(() => {
    setState((before) => ({ ...before, stale: true }));
    if (change === null) return;
    const abort = new AbortController();
    const compare = async (): Promise<void> => {
      const body = { change, last, ...(path === undefined ? {} : { path }) };
      try {
        for await (const line of askLines<AnswerLine>("/what-if", {
          method: "POST",
          body,
          signal: abort.signal,
        })) {
          if (abort.signal.aborted) return;
          if (line.type === "error") setState((before) => ({ ...before, error: line.message }));
          else
            setState({
              report: line,
              oldest: line.type === "end" ? toOldest(line) : null,
              complete: line.type === "end",
              stale: false,
              error: null,
            });
        }
      } catch (error) {
        if (!isEnded(error) && !abort.signal.aborted)
          setState((before) => ({ ...before, error: messageOf(error) }));
      }
    };
    const timer = setTimeout(() => void compare(), COMPARE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [written, last, path, tries]);
  return state;
}
