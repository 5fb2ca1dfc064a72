import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, signedOut } from "../api.ts";
import { Failed, Skeleton } from "./states.tsx";

/** Waits until somebody has signed in again. */
const whenSignedIn = (): Promise<void> =>
  new Promise((resolve) => {
    const stop = signedOut.subscribe((out) => {
      if (out) return;
      resolve();
      queueMicrotask(() => stop());
    });
  });

/** Loads a chunk. The gateway gives it to a session only: one that has ended is waited for. */
async function loadSignedIn<T>(load: () => Promise<T>): Promise<T> {
  await whenSignedIn();
  try {
    return await load();
  } catch (error) {
    // That the session has ended may not have been seen yet: any request finds out.
    await ask("/approvals/count").catch(() => {});
    if (!signedOut.value) throw error;
    await whenSignedIn();
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
      loadSignedIn(load)
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
    // A browser does not ask a second time for a module that it could not load, unless the page is loaded again.
    if (sign === "failed") return <Failed error={NOT_LOADED} retry={() => location.reload()} />;
    return sign === "loading" && lines > 0 ? <Skeleton lines={lines} /> : null;
  };
}
