import {
  type DedupeEntry,
  type DedupeRecord,
  type DedupeRest,
  type DedupeRow,
  type Ms,
  type Sql,
  toDedupeRecord,
} from "#store-kit";
import { digest } from "../client/digest.ts";
import { sqlState } from "../client/errors.ts";

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

/** Returns whether a statement failed because a key was not free. */
export const isUnbound = (error: unknown): boolean => sqlState(error) === "22012";

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
