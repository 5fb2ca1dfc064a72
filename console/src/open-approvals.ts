import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask, awaySince, signedOut } from "./api.ts";

/** The number of tool calls that wait for a person. */
export const openApprovals = signal(0);

const WAIT_SECONDS = 20;
const RETRY_MS = 1000;

let underWay = new AbortController();
let isKnown = false;

/** Asks for the count now: after a decision that was made here. */
export function recountApprovals(): void {
  isKnown = false;
  underWay.abort();
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

/** Asks for the count, and then for each change of it: the gateway answers when there is one. */
async function follow(isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    // A browser opens few connections to one gateway, so a hidden page takes none.
    if (document.hidden || signedOut.value) {
      await sleep(RETRY_MS);
      continue;
    }
    underWay = new AbortController();
    const query = isKnown ? `?not=${openApprovals.value}&wait=${WAIT_SECONDS}` : "";
    try {
      openApprovals.value = (
        await ask<{ open: number }>(`/approvals/count${query}`, { signal: underWay.signal })
      ).open;
      isKnown = true;
    } catch {
      if (!underWay.signal.aborted) await sleep(RETRY_MS);
    }
  }
}

/**
 * Keeps the count up to date while the page is visible. After an outage this is also the request that finds out that the
 * gateway answers again.
 */
export function useOpenApprovals(): void {
  useEffect(() => {
    let isOver = false;
    const leave = (): void => {
      if (document.hidden) underWay.abort();
    };
    document.addEventListener("visibilitychange", leave);
    void follow(() => isOver);
    const stop = awaySince.subscribe((away) => away && recountApprovals());
    return () => {
      isOver = true;
      stop();
      underWay.abort();
      document.removeEventListener("visibilitychange", leave);
    };
  }, []);
}
