import { hash as digestOf, timingSafeEqual } from "node:crypto";
import { OPERATOR_KEY } from "../config/checks.ts";
import type { Config } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import { RouseError, type Failure } from "../core/errors.ts";
import { newToken } from "../core/secret.ts";
import { LEASE_LOST, STORE_UNAVAILABLE, type Held, type Cluster, type Store } from "../store/types.ts";

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

interface ApiKeysDeps {
  store: Store;
  cluster: Pick<Cluster, "shared" | "hold">;
  clock: Pick<Clock, "now">;
  config(): Config;
}

type Created = { ok: true; key: string } | { ok: false; failure: Failure };
type Revoked = { ok: true } | { ok: false; failure: Failure };

const VALUE = "platform.keys";
/** A key that another gateway has revoked is known here for so long at most. */
const FRESH_MS = 1000;
/** A change waits so long for that of another gateway. */
const MAX_TURN_MS = 20_000;

const hex = (text: string): string => digestOf("sha256", text, "hex");
const bytes = (hash: string): Buffer => Buffer.from(hash, "latin1");

function withoutHash({ hash: _hash, createdAt: _createdAt, ...key }: StoredKey): ApiKey {
  return key;
}

function configuredKey({ id, tenant, agents, scopes, rateLimit, userAsSession }: Configured): ApiKey {
  return { id, tenant: tenant ?? id, scopes, userAsSession, ...(agents ? { agents } : {}), ...(rateLimit ? { rateLimit } : {}) };
}

const getHash = ({ key, hash }: Configured): string => (key === undefined ? (hash ?? "").replace(/^sha256:/, "") : hex(key));

type Change<T> = { keys?: StoredKey[]; result: T };

/** The keys in the store. Where several gateways share it, another may change them: then one gateway writes at a time. */
class KeyStore {
  readonly #deps: ApiKeysDeps;
  /** As they were at `#readAt`. */
  #keys: StoredKey[] | undefined;
  #readAt = -Infinity;
  #writing: Promise<unknown> = Promise.resolve();

  constructor(deps: ApiKeysDeps) {
    this.#deps = deps;
  }

  async read(): Promise<StoredKey[]> {
    const { cluster, clock } = this.#deps;
    const fresh = !cluster.shared || Math.abs(clock.now() - this.#readAt) < FRESH_MS;
    return this.#keys && fresh ? this.#keys : this.#readNow();
  }

  /** Makes one change at a time, each on disk before it counts. `make` leaves `keys` out if nothing changes. */
  change<T>(make: (keys: readonly StoredKey[]) => Change<T>): Promise<T> {
    const { store, cluster } = this.#deps;
    const write = async ({ fencingToken }: Pick<Held, "fencingToken">): Promise<T> => {
      const { keys, result } = make(cluster.shared ? await this.#readNow() : await this.read());
      if (!keys) return result;
      if (!(await store.commit((tx) => tx.set("value", VALUE, keys), fencingToken))) throw new RouseError(LEASE_LOST);
      this.#keys = keys;
      return result;
    };
    const next = this.#writing.then(() => (cluster.shared ? this.#inTurn(write) : write({ fencingToken: undefined })));
    this.#writing = next.catch(() => undefined);
    return next;
  }

  async #readNow(): Promise<StoredKey[]> {
    const { store, clock } = this.#deps;
    const at = clock.now();
    this.#keys = ((await store.get("value", VALUE)) as StoredKey[] | undefined) ?? [];
    this.#readAt = at;
    return this.#keys;
  }

  /** Writes when no other gateway does. Throws a `RouseError` if that takes too long. */
  #inTurn<T>(write: (held: Pick<Held, "fencingToken">) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const signal = AbortSignal.timeout(MAX_TURN_MS);
      void this.#deps.cluster
        .hold(`once:${VALUE}`, signal, (held) => write(held).then(resolve, reject))
        .finally(() => reject(new RouseError(STORE_UNAVAILABLE)));
    });
  }
}

/** The keys of the config and those in the store. Where both have an id, the config's counts. */
export function createApiKeys(deps: ApiKeysDeps): ApiKeys {
  const stored = new KeyStore(deps);
  const compiled = new WeakMap<Config, { key: ApiKey; hash: Buffer }[]>();
  const configured = (): { key: ApiKey; hash: Buffer }[] => {
    const config = deps.config();
    const known = compiled.get(config);
    if (known) return known;
    const made = config.platform.apiKeys.map((entry) => ({ key: configuredKey(entry), hash: bytes(getHash(entry)) }));
    compiled.set(config, made);
    return made;
  };
  const isConfigured = (id: string): boolean => configured().some(({ key }) => key.id === id);

  return {
    async find(presented) {
      const given = bytes(hex(presented));
      let found: ApiKey | undefined;
      for (const { key, hash } of configured()) if (hash.length === given.length && timingSafeEqual(hash, given)) found ??= key;
      for (const key of await stored.read())
        if (timingSafeEqual(bytes(key.hash), given) && !isConfigured(key.id)) found ??= withoutHash(key);
      return found;
    },
    async list() {
      const own = configured().map(({ key }): KeyInfo => ({ ...key, source: "config", createdAt: null }));
      const made = (await stored.read()).filter(({ id }) => !isConfigured(id));
      return [...own, ...made.map((key): KeyInfo => ({ ...withoutHash(key), source: "store", createdAt: key.createdAt }))];
    },
    create: (key) =>
      stored.change<Created>((keys) => {
        const taken = keys.some(({ id }) => id === key.id) || isConfigured(key.id);
        const message = taken
          ? `there is a key "${key.id}" already; revoke it first, or choose another id`
          : `"${OPERATOR_KEY}" is the operator's own; choose another id`;
        if (taken || key.id === OPERATOR_KEY) return { result: { ok: false, failure: { code: "usage", message } } };
        const secret = `rk_${newToken()}`;
        return { keys: [...keys, { ...key, hash: hex(secret), createdAt: deps.clock.now() }], result: { ok: true, key: secret } };
      }),
    revoke: (id) =>
      stored.change<Revoked>((keys) => {
        if (keys.some((key) => key.id === id)) return { keys: keys.filter((key) => key.id !== id), result: { ok: true } };
        const message = isConfigured(id)
          ? "this key is in platform.apiKeys of the config: take it out there"
          : "there is no key with this id";
        return { result: { ok: false, failure: { code: isConfigured(id) ? "usage" : "not_found", message } } };
      }),
  };
}
