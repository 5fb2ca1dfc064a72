import { setImmediate } from "node:timers/promises";

/** After so much work, in milliseconds, requests and messages get their turn. */
const TURN_MS = 10;

/**
 * Returns what long work calls between its parts: it gives the event loop a turn if the last one is some time ago, and else
 * returns undefined.
 */
export function createPause(): () => Promise<void> | undefined {
  let turned = performance.now();
  return () => {
    if (performance.now() - turned < TURN_MS) return undefined;
    return setImmediate().then(() => void (turned = performance.now()));
  };
}
