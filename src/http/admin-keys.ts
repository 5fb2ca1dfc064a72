import { Hono } from "hono";
import { z } from "zod";
import { duration, idText } from "../config/schema/common.ts";
import { SCOPES } from "../config/schema/gateway.ts";
import { answer, fail } from "./admin-answer.ts";
import { parseJson } from "./admin-query.ts";
import type { KeyView } from "./admin-types.ts";
import type { ApiKey, KeyInfo } from "./platform/keys.ts";
import type { AdminDeps } from "./types.ts";

const body = z.strictObject({
  id: idText,
  tenant: idText.optional(),
  agents: z.array(z.string()).min(1).optional(),
  scopes: z.array(z.enum(SCOPES)).min(1).default(["chat", "agents:read"]),
  rateLimit: z.strictObject({ requests: z.int().positive(), per: duration }).optional(),
  userAsSession: z.boolean().default(false),
});

function keyView({ id, tenant, agents, scopes, rateLimit, userAsSession, source, createdAt }: KeyInfo): KeyView {
  return {
    id,
    tenant,
    agents: agents ? [...agents] : null,
    scopes: [...scopes],
    rateLimit: rateLimit ? { requests: rateLimit.requests, perSeconds: rateLimit.per / 1000 } : null,
    userAsSession,
    source,
    createdAt: createdAt === null ? null : new Date(createdAt).toISOString(),
  };
}

/** `/keys`: keys of the platform API. A key itself is in one answer only, the one that makes it. */
export function keyRoutes({ keys, snapshot }: AdminDeps): Hono {
  const app = new Hono();
  app.get("/", async (c) => answer(c, "keys", { keys: (await keys.list()).map(keyView) }));
  app.post("/", async (c) => {
    const parsed = await parseJson(c, body);
    if (!parsed.ok) return fail(c, parsed.failure);
    const { agents, rateLimit, ...rest } = parsed.value;
    const missing = agents?.find((id) => !snapshot().agents.get(id));
    if (missing !== undefined) return fail(c, { code: "unknown_agent", message: "agents: agents.list has none of this id" });
    const key: ApiKey = { ...rest, tenant: rest.tenant ?? rest.id, ...(agents ? { agents } : {}), ...(rateLimit ? { rateLimit } : {}) };
    const made = await keys.create(key);
    if (!made.ok) return fail(c, made.failure);
    const info = (await keys.list()).find(({ id }) => id === key.id);
    return info
      ? answer(c, "keyMade", { key: keyView(info), secret: made.key })
      : fail(c, { code: "internal", message: "the key is gone" });
  });
  app.delete("/:id", async (c) => {
    const revoked = await keys.revoke(c.req.param("id"));
    return revoked.ok ? c.json({ ok: true }) : fail(c, revoked.failure);
  });
  return app;
}
