/** Access to the platform API for pages of other origins (CORS). */
import type { Config } from "../../config/schema/index.ts";
import { newId } from "../../core/ids.ts";
import { problemResponse, type ApiProblem } from "./problems.ts";

type Cors = Config["platform"]["cors"];

const METHODS = "GET, HEAD, POST, DELETE";
/** Headers of answers that pages may read, besides those that they may always read. */
const EXPOSED =
  "x-request-id, x-session-id, retry-after, x-should-retry, idempotent-replayed, deprecation, sunset, www-authenticate";
/** How long browsers keep the answer whether a page may send a request. */
const MAX_AGE_SECONDS = "600";
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~ ,-]{1,2000}$/;

const NOT_ALLOWED: ApiProblem = {
  status: 403,
  type: "permission_error",
  code: "origin_not_allowed",
  param: null,
  message: "pages of this origin may not use the API: add the origin to platform.cors.origins",
};

/** Returns what `access-control-allow-origin` says to an origin; undefined if it has no access. */
function getAllowedOrigin(origin: string, { origins }: Cors): string | undefined {
  if (origins.includes(origin.toLowerCase())) return origin;
  return origins.includes("*") ? "*" : undefined;
}

function toHeaders(allowed: string, { credentials }: Cors): Record<string, string> {
  return {
    "access-control-allow-origin": allowed,
    ...(credentials && allowed !== "*" ? { "access-control-allow-credentials": "true" } : {}),
  };
}

/** Answers the question of a browser whether a page may send a request. It carries no key. */
function answerPreflight({ headers }: Request, allowed: string | undefined, cors: Cors): Response {
  if (allowed === undefined) return problemResponse(NOT_ALLOWED, newId("req"));
  const asked = headers.get("access-control-request-headers") ?? "";
  return new Response(null, {
    status: 204,
    headers: {
      ...toHeaders(allowed, cors),
      "access-control-allow-methods": METHODS,
      ...(HEADER_NAMES.test(asked) ? { "access-control-allow-headers": asked } : {}),
      "access-control-max-age": MAX_AGE_SECONDS,
      vary: "origin, access-control-request-headers",
      "x-request-id": newId("req"),
    },
  });
}

/** Answers a request of the platform API with what browsers need to give the answer to a page. */
export async function withCors(
  request: Request,
  cors: Cors,
  answer: () => Response | Promise<Response>,
): Promise<Response> {
  const origin = request.headers.get("origin");
  if (cors.origins.length === 0) return answer();
  const allowed = origin === null ? undefined : getAllowedOrigin(origin, cors);
  const isPreflight =
    request.method === "OPTIONS" &&
    origin !== null &&
    request.headers.has("access-control-request-method");
  if (isPreflight) return answerPreflight(request, allowed, cors);
  const response = await answer();
  response.headers.append("vary", "origin");
  if (allowed === undefined) return response;
  for (const [name, value] of Object.entries(toHeaders(allowed, cors)))
    response.headers.set(name, value);
  response.headers.set("access-control-expose-headers", EXPOSED);
  return response;
}
