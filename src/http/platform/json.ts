import type { Context } from "hono";
import type { PlatformEnv } from "./types.ts";

/** An answer in JSON that nobody keeps. */
export function jsonResponse(c: Context<PlatformEnv>, body: object, status = 200): Response {
  const headers = { "content-type": "application/json", "x-request-id": c.get("caller").requestId, "cache-control": "no-store" };
  return new Response(JSON.stringify(body), { status, headers });
}
