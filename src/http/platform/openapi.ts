import type { ZodOpenApiPathsObject } from "zod-openapi";
import { problems } from "./route.ts";
import { ROUTES } from "./routes.ts";

/** What every route may answer. */
const COMMON_ERRORS = problems({
  "401": "The API key is missing, wrong or revoked.",
  "403": "The key does not have the scope, or is not in `tools.approvers`.",
  "429": "More requests than the key's rate limit; `retry-after` says when.",
  "500": "Something failed inside the gateway.",
  "503": "Too many requests at the same time, or the gateway is stopping; `retry-after` says when.",
});

/** The paths of the platform API for the published document. */
export function platformPaths(): ZodOpenApiPathsObject {
  const paths = Object.entries(ROUTES).map(([path, methods]) => {
    const operations = Object.entries(methods).map(([method, { doc }]) => [
      method.toLowerCase(),
      { ...doc, security: [{ apiKey: [] }], responses: { ...doc.responses, ...COMMON_ERRORS } },
    ]);
    return [`/v1${path.replaceAll(/:(\w+)/g, "{$1}")}`, Object.fromEntries(operations)];
  });
  return Object.fromEntries(paths) as ZodOpenApiPathsObject;
}
