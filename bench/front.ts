/** The least that a server of hooks does on Rouse's stack, before something that stores them. */
import { timingSafeEqual } from "node:crypto";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { TOKEN } from "./servers.ts";

const EXPECTED = Buffer.from(`Bearer ${TOKEN}`);

/** Checks the token, parses the body, and answers 202 with the id of what `store` has stored. */
export function serveHooks(store: (body: unknown) => Promise<string>): void {
  const app = new Hono();
  app.post("*", async (c) => {
    const given = Buffer.from(c.req.header("authorization") ?? "");
    if (given.length !== EXPECTED.length || !timingSafeEqual(given, EXPECTED))
      return c.json({ ok: false }, 401);
    return c.json({ ok: true, id: await store(await c.req.json()) }, 202);
  });
  serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) =>
    console.log(`listens on http://127.0.0.1:${port}`),
  );
}
