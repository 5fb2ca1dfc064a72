import { hash as digestOf, timingSafeEqual } from "node:crypto";
import type { Agent } from "../agent/types.ts";
import { OPERATOR_KEY } from "../config/checks.ts";
import type { Config } from "../config/schema/index.ts";
import type { Failure } from "../core/errors.ts";
import { newToken } from "../core/secret.ts";
import { StoredList, type StoredListDeps } from "../store/stored-list.ts";
import type { Access } from "../knowledge/types.ts";
import type { Agents } from "../turns/types.ts";
import { unknownId } from "../vocabulary/unknown-id.ts";

/**
 * The marks of those who may search a document. A document that names no agents is for every agent that the key of its upload may use at the
 * time of the question: if that is every agent, for the whole tenant, else it is marked with the key. No agent's id has a colon.
 */
const PREFIX = "key:";
const toMark = ({ id }: Pick<ApiKey, "id">): string => PREFIX + id;

/** The marks of an upload's document. */
export function getAudience(key: ApiKey, asked: readonly string[]): readonly string[] {
  if (asked.length > 0) return [...new Set(asked)];
  return key.agents ? [toMark(key)] : [];
}

/** The marks by which these agents find documents of a tenant. */
export async function marksFor(
  agents: readonly string[],
  tenant: string,
  keys: Pick<ApiKeys, "list">,
): Promise<string[]> {
  const theirs = (await keys.list()).filter(
    (key) => key.tenant === tenant && (key.agents?.some((id) => agents.includes(id)) ?? true),
  );
  return [...agents, ...theirs.map(toMark)];
}

/** Returns the marks that a key may see and change; undefined for all of its tenant. */
export async function getAccess(
  key: ApiKey,
  keys: Pick<ApiKeys, "list">,
): Promise<Access | undefined> {
  const { agents, tenant } = key;
  if (!agents) return undefined;
  const within = (await keys.list()).filter(
    (one) => one.tenant === tenant && one.agents?.every((id) => agents.includes(id)),
  );
  return { sees: await marksFor(agents, tenant, keys), owns: [...agents, ...within.map(toMark)] };
}

/** The agents that a document's marks stand for now. */
export async function listShownAgents(
  marks: readonly string[],
  keys: Pick<ApiKeys, "list">,
): Promise<string[]> {
  if (!marks.some((mark) => mark.startsWith(PREFIX))) return [...marks];
  const all = await keys.list();
  const agentsOf = (mark: string): readonly string[] =>
    all.find((key) => toMark(key) === mark)?.agents ?? [];
  return [...new Set(marks.flatMap((mark) => (mark.startsWith(PREFIX) ? agentsOf(mark) : [mark])))];
}

type Configured = Config["platform"]["apiKeys"][number];
export type Scope = Configured["scopes"][number];

/** A key of the platform API, without the key. */
export interface ApiKey {
  id: string;
  tenant: string;
  /** Undefined: all. */
  agents?: readonly string[];
  scopes: readonly Scope[];
  rateLimit?: { requests: number; per: number };
  userAsSession: boolean;
  /** The parts of answers that are disarmed. Default: `images`. */
  clean?: Configured["clean"];
}

/** A key that was made by a command; only its SHA-256 is kept. */
interface StoredKey extends ApiKey {
  hash: string;
  createdAt: number;
}

export type KeyInfo = ApiKey & { source: "config" | "store"; createdAt: number | null };

export interface ApiKeys {
  /** The key that a caller presents. */
  find(presented: string): Promise<ApiKey | undefined>;
  list(): Promise<KeyInfo[]>;
  /** Makes a key; it is never shown again. */
  create(key: ApiKey): Promise<Created>;
  revoke(id: string): Promise<Revoked>;
}

interface ApiKeysDeps extends StoredListDeps {
  snapshot(): { config: Config };
}

/** The agents that a key may use, in the config's order. */
export const listAllowedAgents = (key: ApiKey, { list }: Agents): readonly Agent[] =>
  list.filter(({ id }) => key.agents?.includes(id) ?? true);

/** Finds the agent that a key means by a name: its id, `agent:<id>`, or `default`. Undefined for one that the key may not use. */
export function findAgent(name: string, key: ApiKey, agents: Agents): Agent | undefined {
  const allowed = listAllowedAgents(key, agents);
  const named =
    allowed.find(({ id }) => id === name) ?? allowed.find(({ id }) => `agent:${id}` === name);
  if (named || name !== "default") return named;
  return allowed.find(({ id }) => id === agents.default.id) ?? allowed[0];
}

type Created = { ok: true; key: string } | { ok: false; failure: Failure };
type Revoked = { ok: true } | { ok: false; failure: Failure };

const VALUE = "platform.keys";

const hex = (text: string): string => digestOf("sha256", text, "hex");
const bytes = (hash: string): Buffer => Buffer.from(hash, "latin1");

function withoutHash({ hash: _hash, createdAt: _createdAt, ...key }: StoredKey): ApiKey {
  return key;
}

function configuredKey({
  key: _key,
  hash: _hash,
  tenant,
  agents,
  rateLimit,
  ...rest
}: Configured): ApiKey {
  return {
    ...rest,
    tenant: tenant ?? rest.id,
    ...(agents && { agents }),
    ...(rateLimit && { rateLimit }),
  };
}

const getHash = ({ key, hash }: Configured): string =>
  key === undefined ? (hash ?? "").replace(/^sha256:/, "") : hex(key);

/** The keys of the config and those in the store. If both have the same id, the config's key is used. */
export function createApiKeys(deps: ApiKeysDeps): ApiKeys {
  const stored = new StoredList<StoredKey>(VALUE, deps);
  const compiled = new WeakMap<Config, { key: ApiKey; hash: Buffer }[]>();
  const configured = (): { key: ApiKey; hash: Buffer }[] => {
    const { config } = deps.snapshot();
    const known = compiled.get(config);
    if (known) return known;
    const made = config.platform.apiKeys.map((entry) => ({
      key: configuredKey(entry),
      hash: bytes(getHash(entry)),
    }));
    compiled.set(config, made);
    return made;
  };
  const isConfigured = (id: string): boolean => configured().some(({ key }) => key.id === id);

  return {
    async find(presented) {
      const given = bytes(hex(presented));
      let found: ApiKey | undefined;
      for (const { key, hash } of configured())
        if (hash.length === given.length && timingSafeEqual(hash, given)) found ??= key;
      for (const key of await stored.read())
        if (timingSafeEqual(bytes(key.hash), given) && !isConfigured(key.id))
          found ??= withoutHash(key);
      return found;
    },
    async list() {
      const own = configured().map(({ key }): KeyInfo => ({
        ...key,
        source: "config",
        createdAt: null,
      }));
      const made = (await stored.read()).filter(({ id }) => !isConfigured(id));
      return [
        ...own,
        ...made.map((key): KeyInfo => ({
          ...withoutHash(key),
          source: "store",
          createdAt: key.createdAt,
        })),
      ];
    },
    create: (key) =>
      stored.change<Created>((keys) => {
        const taken = keys.some(({ id }) => id === key.id) || isConfigured(key.id);
        const message = taken
          ? `there is a key "${key.id}" already; revoke it first, or choose another id`
          : `"${OPERATOR_KEY}" is the operator's own; choose another id`;
        if (taken || key.id === OPERATOR_KEY)
          return { result: { ok: false, failure: { code: "usage", message } } };
        const secret = `rk_${newToken()}`;
        return {
          list: [...keys, { ...key, hash: hex(secret), createdAt: deps.clock.now() }],
          result: { ok: true, key: secret },
        };
      }),
    revoke: (id) =>
      stored.change<Revoked>((keys) => {
        if (keys.some((key) => key.id === id))
          return { list: keys.filter((key) => key.id !== id), result: { ok: true } };
        const message = "this key is in platform.apiKeys of the config: take it out there";
        const failure: Failure = isConfigured(id)
          ? { code: "usage", message }
          : unknownId("key", id);
        return { result: { ok: false, failure } };
      }),
  };
}
