import { type Sql, urlError } from "#store-kit";

/** Only a store that was copied into has the table: a row for each source. */
const CREATE = `CREATE TABLE IF NOT EXISTS copies (
  source text PRIMARY KEY, begun timestamptz NOT NULL DEFAULT now(), ended timestamptz, used timestamptz)`;

export interface Copy {
  source: string;
  ended: boolean;
  used: boolean;
}

/** The copies that were made, or begun, into this schema. */
export async function readCopies(sql: Sql): Promise<Copy[]> {
  const [there] = await sql.query<{ there: boolean }>(
    "SELECT to_regclass('copies') IS NOT NULL AS there",
  );
  if (!there?.there) return [];
  return sql.query<Copy>(
    "SELECT source, ended IS NOT NULL AS ended, used IS NOT NULL AS used FROM copies ORDER BY source",
  );
}

export async function beginCopy(sql: Sql, source: string): Promise<void> {
  await sql.query(CREATE);
  await sql.query(
    "INSERT INTO copies (source) VALUES ($1) ON CONFLICT (source) DO UPDATE SET ended = NULL",
    [source],
  );
}

export async function endCopy(sql: Sql, source: string): Promise<void> {
  await sql.query("UPDATE copies SET ended = now() WHERE source = $1", [source]);
}

/**
 * Before a gateway works with a store: one that was copied only in part is none, and one that is used cannot be copied
 * over any more.
 * @throws RouseError `config_invalid` where a copy was begun and not ended.
 */
export async function takeCopy(sql: Sql): Promise<void> {
  const copies = await readCopies(sql);
  if (copies.length === 0) return;
  if (copies.some(({ ended }) => !ended)) {
    const message =
      "a copy into this database was begun and has not ended; run the same rouse store copy again, it goes on where it stopped";
    throw urlError(message, { transient: true });
  }
  await sql.query("UPDATE copies SET used = now() WHERE used IS NULL");
}
