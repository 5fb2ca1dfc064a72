import { effect } from "@preact/signals";
import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, awaySince, signedOut, UNREACHABLE } from "../api.ts";
import { Failed, Skeleton } from "./states.tsx";

const isOut = (): boolean => signedOut.value || awaySince.value !== null;

/** Waits until the gateway answers and somebody is signed in. */
const whenBack = (): Promise<void> =>
  new Promise((resolve) => {
    const stop = effect(() => {
      if (isOut()) return;
      resolve();
      queueMicrotask(() => stop());
    });
  });

/** Finds out whether the gateway answers, and whether the session has ended. */
const probe = (): Promise<unknown> => ask("/approvals/count").catch(() => {});

/** Loads a chunk. The gateway gives it to a session only: the gateway and the session are waited for. */
async function loadWhenBack<T>(load: () => Promise<T>): Promise<T> {
  await whenBack();
  try {
    return await load();
  } catch (error) {
    await probe();
    if (!isOut()) throw error;
    await whenBack();
    return load();
  }
}

const SIGN_OF_LOADING_MS = 150;
const NOT_LOADED = {
  code: "load",
  message:
    "This part of the page could not be loaded. The gateway may have been updated: load the page again.",
};

/**
 * A component that is loaded when it is first shown, so that the page around it appears without waiting for it. `load`
 * imports its chunk; `lines` is how long the sign of loading is.
 */
export function lazy<P extends object>(
  load: () => Promise<ComponentType<P>>,
  lines = 10,
): (props: P) => JSX.Element | null {
  let Loaded: ComponentType<P> | undefined;
  return function Lazy(props) {
    const [, setTurn] = useState(0);
    const [sign, setSign] = useState<"none" | "loading" | "failed">("none");
    useEffect(() => {
      if (Loaded) return;
      let isGone = false;
      const timer = setTimeout(() => setSign("loading"), SIGN_OF_LOADING_MS);
      loadWhenBack(load)
        .then((component) => {
          Loaded = component;
          if (!isGone) setTurn((turn) => turn + 1);
        })
        .catch(() => {
          if (!isGone) setSign("failed");
        })
        .finally(() => clearTimeout(timer));
      return () => {
        isGone = true;
        clearTimeout(timer);
      };
    }, []);
    if (Loaded) return <Loaded {...props} />;
    if (awaySince.value && lines > 0)
      return <Failed error={UNREACHABLE} retry={() => void probe()} />;
    // A browser does not ask a second time for a module that it could not load, unless the page is loaded again.
    if (sign === "failed") return <Failed error={NOT_LOADED} retry={() => location.reload()} />;
    return sign === "loading" && lines > 0 ? <Skeleton lines={lines} /> : null;
  };
}
