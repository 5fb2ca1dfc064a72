import type { Page, Request } from "playwright-core";
import { PATIENCE_MS } from "./browser.ts";

/** Requests that the gateway answers when there is something new: the events of Live, and the count of open approvals. */
const WAITS_FOR_NEWS = /\/admin\/v1\/(?:stream|approvals\/count)/;
/** A page that asks for nothing for so long has all that it asks for. */
const IDLE_MS = 300;

/** Counts the requests of a page that have no answer yet, from now on. */
export function watchRequests(page: Page): { settled(): Promise<void>; forget(): void } {
  const open = new Set<Request>();
  let changedAt = performance.now();
  const end = (request: Request): void => {
    if (open.delete(request)) changedAt = performance.now();
  };
  page.on("request", (request) => {
    if (request.method() !== "GET" || WAITS_FOR_NEWS.test(request.url())) return;
    open.add(request);
    changedAt = performance.now();
  });
  page.on("requestfinished", end);
  page.on("requestfailed", end);
  return {
    // Requests of a page that was left do not always end for the browser.
    forget() {
      open.clear();
      changedAt = performance.now();
    },
    async settled() {
      for (
        const begun = performance.now();
        open.size > 0 || performance.now() - changedAt < IDLE_MS;
      ) {
        if (performance.now() - begun > PATIENCE_MS)
          throw new Error(`no answer to ${[...open].map((request) => request.url()).join(", ")}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
  };
}
