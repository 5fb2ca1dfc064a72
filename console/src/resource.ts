import { effect, signal } from "@preact/signals";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { AskError, ask, awaySince, signedOut } from "./api.ts";

/** The data of a panel, or its error. Data stays while the panel asks again. */
export interface Resource<T> {
  data: T | undefined;
  error: AskError | undefined;
  /** A request has taken 150 ms or more. Faster answers show no sign of loading. */
  loading: boolean;
  reload(): void;
}

/** Counts the outages and signed-out times that have ended. */
export const returns = signal(0);
let wasOut = false;
effect(() => {
  const isOut = signedOut.value || awaySince.value !== null;
  if (wasOut && !isOut) returns.value = returns.peek() + 1;
  wasOut = isOut;
});

/** Counts up when an outage or the lack of a session ends in which something has failed, so that it is tried again. */
export function useTries(hasFailed: boolean): number {
  const [tries, setTries] = useState(0);
  useEffect(() => {
    if (hasFailed) setTries((before) => before + 1);
  }, [returns.value]);
  return tries;
}

const SIGN_OF_LOADING_MS = 150;
const REFRESH_MS = 5000;

const refreshed = new Set<() => void>();
let ticking: ReturnType<typeof setInterval> | undefined;

/** Calls `refresh` every five seconds, together with all others: figures beside each other are of the same moment. Returns what ends it. */
function onTick(refresh: () => void): () => void {
  refreshed.add(refresh);
  if (refreshed.size === 1)
    ticking = setInterval(() => refreshed.forEach((each) => each()), REFRESH_MS);
  return () => {
    refreshed.delete(refresh);
    if (refreshed.size === 0) clearInterval(ticking);
  };
}

/** Calls `refresh` every so many milliseconds. Returns what ends it. */
function onInterval(refresh: () => void, interval: number): () => void {
  const timer = setInterval(refresh, interval);
  return () => clearInterval(timer);
}

export interface ResourceOptions {
  /** Asks again every five seconds, or as often as it says in ms, while the page is visible. */
  live?: boolean | number;
}

/** Asks the admin API for what a panel shows. A path of null asks nothing. */
export function useResource<T>(
  path: string | null,
  { live = false }: ResourceOptions = {},
): Resource<T> {
  const [state, setState] = useState<{ path: string | null; data?: T; error?: AskError }>({ path });
  const [loading, setLoading] = useState(false);
  const [turn, setTurn] = useState(0);
  const underWay = useRef(false);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    underWay.current = true;
    const sign = setTimeout(() => setLoading(true), SIGN_OF_LOADING_MS);
    const settle = (change: { data?: T; error?: AskError }) => {
      if (abort.signal.aborted) return;
      // After an error what was shown of the same address stays, under the reason.
      setState((before) => ({
        path,
        ...(before.path === path && before.data !== undefined ? { data: before.data } : {}),
        ...change,
      }));
    };
    ask<T>(path, { signal: abort.signal })
      .then((data) => settle({ data }))
      .catch((error: unknown) =>
        settle({
          error: error instanceof AskError ? error : new AskError("unknown", String(error)),
        }),
      )
      .finally(() => {
        clearTimeout(sign);
        if (abort.signal.aborted) return;
        underWay.current = false;
        setLoading(false);
      });
    return () => {
      abort.abort();
      clearTimeout(sign);
    };
  }, [path, turn, returns.value]);
  useEffect(() => {
    if (path === null) return;
    const refresh = (): void => {
      // An answer that takes longer than that is waited for.
      if (!underWay.current && !document.hidden && !signedOut.value) reload();
    };
    if (live === false) return;
    return live === true ? onTick(refresh) : onInterval(refresh, live);
  }, [path, live, reload]);
  const current = state.path === path;
  return {
    data: current ? state.data : undefined,
    error: current ? state.error : undefined,
    loading,
    reload,
  };
}

/** Runs an action once at a time, and says whether it is under way. Errors reach `onError`. */
export function useAction<A extends unknown[]>(
  run: (...args: A) => Promise<void>,
  onError: (error: Error) => void,
): [(...args: A) => void, boolean] {
  const [busy, setBusy] = useState(false);
  const underWay = useRef(false);
  const start = (...args: A): void => {
    if (underWay.current) return;
    underWay.current = true;
    setBusy(true);
    run(...args)
      .catch((error: unknown) => onError(error instanceof Error ? error : new Error(String(error))))
      .finally(() => {
        underWay.current = false;
        setBusy(false);
      });
  };
  return [start, busy];
}
