import type { ApiKey, KeyInfo } from "../../chat/api-keys.ts";
import { RouseError } from "../../core/errors.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { found, unwrap } from "../records/operation.ts";
import type { AdminDeps } from "../types.ts";
import { iso, pick } from "../records/views.ts";

/** A key of the platform API, without the key. */
export type KeyView = ReturnType<typeof keyView>;

function keyView(key: KeyInfo) {
  const { agents, scopes, rateLimit, clean, createdAt } = key;
  return {
    ...pick(key, "id", "tenant", "userAsSession", "source"),
    /** Null: all. */
    agents: agents ? [...agents] : null,
    scopes: [...scopes],
    rateLimit: rateLimit
      ? { requests: rateLimit.requests, perSeconds: rateLimit.per / 1000 }
      : null,
    clean: clean ?? "images",
    createdAt: createdAt === null ? null : iso(createdAt),
  };
}

export async function listKeys({ keys }: AdminDeps) {
  return { keys: (await keys.list()).map(keyView) };
}

/** The rights of a new key. `tenant` defaults to its id, `agents` to all. */
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
  const unknown = agents?.find((id) => !snapshot().agents.get(id));
  if (unknown !== undefined)
    throw new RouseError({ ...unknownId("agent", unknown), code: "unknown_agent" });
  const optional = { ...(agents ? { agents } : {}), ...(rateLimit ? { rateLimit } : {}) };
  const { key: secret } = unwrap(
    await keys.create({ ...rest, tenant: rest.tenant ?? rest.id, ...optional }),
  );
  const info = (await keys.list()).find(({ id }) => id === rest.id);
  return { key: keyView(found(info, unknownId("key", rest.id))), secret };
}

/** @throws RouseError `not_found`, or `usage` if the key is one of the config. */
export async function revokeKey({ keys }: AdminDeps, id: string): Promise<void> {
  unwrap(await keys.revoke(id));
}
