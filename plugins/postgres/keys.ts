import {
  type DedupeEntry,
  type DedupeRecord,
  type DedupeRest,
  type DedupeRow,
  type Ms,
  type Sql,
  toDedupeRecord,
} from "#store-kit";
import { digest } from "./digest.ts";
import { sqlState } from "./errors.ts";

/** A duplicate key on its way into the database. */
export interface NewDedupeKey {
  id: Buffer;
  /** The id as text: what tells keys apart in a map. */
  name: string;
  scope: string;
  key: string;
  expires: Ms;
  eventId: string;
  record: string;
}

export function newKeys(eventId: string, entries: readonly DedupeEntry[]): NewDedupeKey[] {
  const keys = new Map<string, NewDedupeKey>();
  for (const { scope, key, expiresAt, ...rest } of entries) {
    const id = digest(scope, key);
    const name = id.toString("hex");
    keys.set(name, {
      id,
      name,
      scope,
      key,
      expires: expiresAt,
      eventId,
      record: JSON.stringify({ ...rest, eventId } satisfies DedupeRest),
    });
  }
  return [...keys.values()];
}

const KEY_VALUES = 7;

const bind = (first: number): string => {
  const [id, scope, key, expires, eventId, record, now] = Array.from(
    { length: KEY_VALUES },
    (_, n) => `$${first + n}`,
  );
  return `INSERT INTO dedupe AS known (id, scope, key, expires, event_id, record)
      SELECT id, scope, key, expires, event_id, record
      FROM unnest(${id}::bytea[], ${scope}::text[], ${key}::text[], ${expires}::bigint[], ${eventId}::text[], ${record}::text[]) WITH ORDINALITY
        AS given (id, scope, key, expires, event_id, record, nth) ORDER BY nth
      ON CONFLICT (id) DO UPDATE
        SET expires = excluded.expires, restarts = 0, event_id = excluded.event_id, record = excluded.record
        WHERE known.expires <= ${now}::bigint
      RETURNING id`;
};

/** Values of `BIND_KEYS`. All gateways bind in the same order, so that no two wait for each other. */
export function toKeyValues(keys: readonly NewDedupeKey[], now: Ms): unknown[] {
  if (keys.length === 0) return [];
  const sorted = keys.toSorted((a, b) => Buffer.compare(a.id, b.id));
  return [
    sorted.map((one) => one.id),
    sorted.map((one) => one.scope),
    sorted.map((one) => one.key),
    sorted.map((one) => one.expires),
    sorted.map((one) => one.eventId),
    sorted.map((one) => one.record),
    now,
  ];
}

/** Part of a statement that binds keys; `first`: the place of its first value. */
export const BIND_KEYS = (first: number): string => `
  bound AS (${bind(first)})`;

/** A condition that ends the statement with an error unless all keys of `BIND_KEYS` were bound. */
export const ALL_BOUND = (first: number): string =>
  `1 / (CASE WHEN (SELECT count(*) FROM bound) = cardinality($${first}::bytea[]) THEN 1 ELSE 0 END) = 1`;

/** Whether a statement failed because of `ALL_BOUND`. */
export const isUnbound = (error: unknown): boolean => sqlState(error) === "22012";

/**
 * Binds keys that are free, or expired, to their events. The unique index decides: where another gateway is binding the
 * same key at this moment, this waits until it is known whether that one has it. Returns the names of those that are
 * bound now.
 */
export async function bindKeys(
  sql: Sql,
  keys: readonly NewDedupeKey[],
  now: Ms,
): Promise<Set<string>> {
  const rows = await sql.query<{ id: Buffer }>(bind(1), toKeyValues(keys, now));
  return new Set(rows.map((row) => row.id.toString("hex")));
}

/** Lets keys go again that were bound in this transaction. */
export function unbindKeys(sql: Sql, keys: readonly NewDedupeKey[]): Promise<never[]> {
  return sql.query<never>("DELETE FROM dedupe WHERE id = ANY($1::bytea[])", [
    keys.map((key) => key.id),
  ]);
}

/** The records that hold keys, by name, also where they are expired. */
export async function readDedupeRecords(
  sql: Sql,
  ids: readonly Buffer[],
): Promise<Map<string, DedupeRecord>> {
  const rows = await sql.query<DedupeRow & { id: Buffer }>(
    "SELECT id, scope, key, expires, record FROM dedupe WHERE id = ANY($1::bytea[])",
    [ids],
  );
  return new Map(rows.map((row) => [row.id.toString("hex"), toDedupeRecord(row)]));
}
