import type { ApiKey, KeyInfo } from "../../chat/api-keys.ts";
import { RouseError } from "../../core/errors.ts";
import { found, unwrap } from "../records/operation.ts";
import type { AdminDeps } from "../types.ts";
import { iso } from "../records/views.ts";

/** A key of the platform API, without the key. */
export type KeyView = ReturnType<typeof keyView>;

function keyView({
  id,
  tenant,
  agents,
  scopes,
  rateLimit,
  userAsSession,
  clean,
  source,
  createdAt,
}: KeyInfo) {
  return {
    id,
    tenant,
    /** Null: all. */
    agents: agents ? [...agents] : null,
    scopes: [...scopes],
    rateLimit: rateLimit
      ? { requests: rateLimit.requests, perSeconds: rateLimit.per / 1000 }
      : null,
    userAsSession,
    clean: clean ?? "images",
    source,
    createdAt: createdAt === null ? null : iso(createdAt),
  };
}

export async function listKeys({ keys }: AdminDeps) {
  return { keys: (await keys.list()).map(keyView) };
}

/** What a new key may do. `tenant` defaults to its id, `agents` to all. */
export type NewKey = Pick<ApiKey, "id" | "scopes" | "userAsSession" | "clean"> & {
  [K in "tenant" | "agents" | "rateLimit"]?: ApiKey[K] | undefined;
};

/**
 * Makes a key. Its secret is in this answer only.
 * @throws RouseError `unknown_agent`, or `usage` if the id is taken.
 */
export async function createKey(
  { keys, snapshot }: AdminDeps,
  { agents, rateLimit, ...rest }: NewKey,
) {
  if (agents?.some((id) => !snapshot().agents.get(id)))
    throw new RouseError({
      code: "unknown_agent",
      message: "agents: agents.list has none of this id",
    });
  const optional = { ...(agents ? { agents } : {}), ...(rateLimit ? { rateLimit } : {}) };
  const { key: secret } = unwrap(
    await keys.create({ ...rest, tenant: rest.tenant ?? rest.id, ...optional }),
  );
  const info = (await keys.list()).find(({ id }) => id === rest.id);
  return { key: keyView(found(info, "the key was revoked meanwhile")), secret };
}

/** @throws RouseError `not_found`, or `usage` if the key is one of the config. */
export async function revokeKey({ keys }: AdminDeps, id: string): Promise<void> {
  unwrap(await keys.revoke(id));
}
