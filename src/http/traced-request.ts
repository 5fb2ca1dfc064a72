import type { Context } from "hono";
import { isKnownPath } from "../intake/traced-intake.ts";
import type { Snapshot } from "../intake/types.ts";
import type { Telemetry } from "../telemetry/types.ts";

/** The pattern of a hook's address. Paths that no mapping takes are one: they are whatever callers send. */
export const hookRoute = (path: string, snapshot: Snapshot): string =>
  `${snapshot.config.hooks.path}/${isKnownPath(path, snapshot) ? path : ":path"}`;

/** The pattern of an address of the platform API: below its second member are ids. */
export function platformRoute(path: string): string {
  const [collection = "", ...rest] = path.split("/").slice(2);
  if (collection === "chat") return path === "/v1/chat/completions" ? path : "/v1/*";
  return `/v1/${/^[a-z]{1,20}$/.test(collection) ? collection : "*"}${rest.length > 0 ? "/*" : ""}`;
}

/** Answers a request within its server span. The address is recorded as its pattern: what follows it may be secret. */
export function serveTraced(
  c: Context,
  route: string,
  telemetry: Telemetry,
  answer: () => Promise<Response>,
): Promise<Response> {
  const { method, url } = c.req;
  const headers = {
    traceparent: c.req.header("traceparent"),
    tracestate: c.req.header("tracestate"),
  };
  const scheme = url.slice(0, url.indexOf(":"));
  return telemetry.serve({ method, route, scheme, headers }, answer);
}
