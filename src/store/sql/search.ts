import {
  PAGES,
  type SqlCondition,
  type JsonValue,
  type Page,
  type ListWalk,
  type Value,
} from "./read-table.ts";
import type { Listing, ListQuery, Ms, SearchedKind, SearchResult } from "../types.ts";

/** Rows are in order of time but for what waited before it was written: a body that came slowly, a run that took long. */
export const DISORDER_MS = 3_600_000;
/** Ids that `newId` makes: they begin with their time. */
const OWN_ID = /^[a-z]{3}_[0-9a-v]{35}$/;

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 1000;

/** The limits of one search. */
export interface SearchLimits {
  ms: Ms;
  /** Windows of rows. */
  windows: number;
}

/** For a list that someone waits for. A disk that is slow must not make the answer late: the time counts, too. */
export const SHORT: SearchLimits = { ms: 40, windows: 25 };
/** For a list that has to be complete, however long that takes. */
export const UNLIMITED: SearchLimits = { ms: Infinity, windows: Infinity };

type Row = Record<string, Value>;
type Key = readonly Value[];

/** Reads the usage of runs in a driver's SQL. */
export interface UsageDialect {
  /** Runs that one statement adds up. */
  rows: number;
  /** The text behind FROM. */
  from: string;
  /** Renders a field of the record, and a number of its usage. */
  field(name: string): string;
  number(name: string): string;
  /** Renders the day of a time in milliseconds, in UTC. */
  day(column: string): string;
}

/** Reads rows in a driver. */
export interface ListSource {
  /** Runs SQL that has a `?` for each value. */
  query<T>(sql: string, values: readonly Value[]): Promise<T[]>;
  /** Rows that one statement looks at. */
  window: number;
  json: JsonValue;
  usage: UsageDialect;
  /** Renders that a number is one of a list, which is one value. */
  isNumberOf: { sql: string; toValue(numbers: readonly number[]): Value };
  /**
   * Prepares a read that many ask for at the same moment, by a key of values of these types. Absent if nothing is gained by asking
   * together.
   */
  readTogether?<Row>(text: string, types: readonly string[]): (...key: Value[]) => Promise<Row[]>;
  /** The column that identifies a session, its type, and how its value is made from a `sessionId`. */
  session: { column: string; type: string; toKey(id: string): Value };
  /** Renders a table that is to be read by an index, or by the number of its rows, if a statement can say so. */
  byIndex?(table: string, index: string | undefined): string;
  /** Renders that a column is among the rows of a subquery, which is read first: it has few. */
  isAmong(column: string, subquery: string): string;
  /** Indexes that this driver does not have. */
  lacks: ReadonlySet<string>;
  /** Returns true if it is known that there is no row of these names in `counts`. */
  isNone(names: readonly string[]): Promise<boolean>;
  /** Called between two windows. */
  pause?(): Promise<void>;
}

/** The last row of a window. The next window lies below it. */
interface WindowEnd {
  key: Key;
  id: string;
  at: Ms | null;
}

function toWhere(conditions: readonly SqlCondition[]): { sql: string; values: Value[] } {
  const sql = conditions.map(([text]) => text).join(" AND ");
  return {
    sql: sql === "" ? "" : `WHERE ${sql}`,
    values: conditions.flatMap(([, ...values]) => values),
  };
}

const descending = (columns: readonly string[]): string =>
  `ORDER BY ${columns.map((column) => `${column} DESC`).join(", ")}`;

/** `(a, b) < (?, ?)`; true of all rows if the key is empty. */
function compare(columns: readonly string[], operator: "<" | ">=", key: Key): SqlCondition[] {
  if (key.length === 0) return [];
  const [left, right] = [columns.join(", "), columns.map(() => "?").join(", ")];
  return [
    columns.length === 1
      ? [`${left} ${operator} ${right}`, ...key]
      : [`(${left}) ${operator} (${right})`, ...key],
  ];
}

/** The statements of one search. */
class Windows<Q extends ListQuery, T> {
  readonly #source: ListSource;
  readonly #page: Page<Q, T>;
  readonly #query: Q;
  readonly #walk: ListWalk;
  /** The columns of the order. */
  readonly #key: readonly string[];
  /** These columns in the table that the walk goes through. */
  readonly #walkKey: readonly string[];
  readonly #rest: readonly SqlCondition[];

  constructor(source: ListSource, page: Page<Q, T>, query: Q) {
    const filters = page.filters(query, source.json);
    const chosen = filters.find(
      ({ walk }) => walk?.index !== undefined && !source.lacks.has(walk.index),
    );
    // The plus keeps this condition from bounding an index in place of the window.
    const since: SqlCondition[] =
      query.since === undefined ? [] : [[`+${page.at} >= ?`, query.since]];
    this.#source = source;
    this.#page = page;
    this.#query = query;
    this.#walk = chosen?.walk ?? page.walk;
    this.#key = this.#walk.key.map((column) =>
      column === "$session" ? source.session.column : column,
    );
    this.#walkKey = this.#walk.through ? [this.#walk.through.column] : this.#key;
    this.#rest = [
      ...filters.filter((filter) => filter !== chosen).flatMap(({ conditions }) => conditions),
      ...since,
    ];
  }

  /** The table of the walk. */
  get #walked(): string {
    const { index, through } = this.#walk;
    const table = through?.table ?? this.#page.table;
    return this.#source.byIndex?.(table, index) ?? table;
  }

  /** True if each row of the walk is in the list: then one window is enough, however long. */
  get isExact(): boolean {
    return this.#rest.length === 0 && !this.#walk.through;
  }

  /** Returns the key that all rows of the page lie below; an empty one if every row does; undefined if there are none. */
  async start(): Promise<Key | undefined> {
    const { table, cursor } = this.#page;
    const { before } = this.#query;
    const { session } = this.#source;
    const { key, index, range } = this.#walk;
    if (key[0] === "id") {
      if (range && (before === undefined || before > String(range.below[0]))) return range.below;
      return before === undefined ? [] : [before];
    }
    if (before !== undefined) {
      const [column, id] =
        cursor === "session" ? [session.column, session.toKey(before)] : ["id", before];
      const [row] = await this.#source.query<Row>(
        `SELECT ${this.#key.join(", ")} FROM ${table} WHERE ${column} = ?`,
        [id],
      );
      return row ? this.#keyOf(row) : this.#startBelowDeleted(before);
    }
    if (index !== undefined) return range?.below ?? [];
    const [newest] = await this.#source.query<{ seq: number }>(
      `SELECT seq FROM ${table} ORDER BY seq DESC LIMIT 1`,
      [],
    );
    return newest && [newest.seq + 1];
  }

  /** A row that was deleted since it was named still has a place: its id tells its time, and older rows have smaller ids. */
  async #startBelowDeleted(before: string): Promise<Key | undefined> {
    const { table, cursor } = this.#page;
    if (cursor !== "id" || this.#key[0] !== "seq" || !OWN_ID.test(before)) return undefined;
    const text = `SELECT seq FROM ${table} WHERE id < ? ORDER BY id DESC LIMIT 1`;
    const [row] = await this.#source.query<{ seq: number }>(text, [before]);
    return row && [row.seq + 1];
  }

  /** Returns the last row of the window below `below`; undefined if the window reaches the oldest row. */
  async end(below: Key): Promise<WindowEnd | undefined> {
    const { cursor, table } = this.#page;
    const {
      index,
      where,
      through,
      range,
      rows = this.#source.window,
      at = this.#page.at,
    } = this.#walk;
    // Numbers of a table are close together: a step by number is cheaper than counting rows.
    const edge: SqlCondition[] =
      index === undefined
        ? [["seq <= ?", Number(below[0]) - rows]]
        : compare(this.#walkKey, "<", below);
    const { sql, values } = toWhere([
      ...where,
      ...edge,
      ...compare(this.#walkKey, ">=", range?.from ?? []),
    ]);
    const columns = through
      ? `${through.column} AS id, (SELECT ${at} FROM ${table} WHERE id = ${through.column}) AS at`
      : `${[...new Set([...this.#key, cursor])].join(", ")}, ${at} AS at`;
    const text = `SELECT ${columns} FROM ${this.#walked} ${sql} ${descending(this.#walkKey)} LIMIT 1${index === undefined ? "" : ` OFFSET ${rows - 1}`}`;
    const [row] = await this.#source.query<Row & { at: Ms | null }>(text, values);
    return row && { key: this.#keyOf(row), id: String(row[cursor]), at: row.at };
  }

  #keyOf(row: Row): Value[] {
    return this.#key.map((column) => row[column] as Value);
  }

  /** Reads the rows of a window that are in the list. */
  async rows(below: Key, end: Key, limit: number): Promise<T[]> {
    const { table, columns, read } = this.#page;
    const { where, through, range } = this.#walk;
    const from = end.length === 0 && range ? range.from : end;
    const inside = [
      ...where,
      ...compare(this.#walkKey, "<", below),
      ...compare(this.#walkKey, ">=", from),
    ];
    const filter = toWhere(
      through ? [this.#named(through.column, inside), ...this.#rest] : [...inside, ...this.#rest],
    );
    const text = `SELECT ${columns} FROM ${through ? table : this.#walked} ${filter.sql} ${descending(this.#key)} LIMIT ?`;
    return (await this.#source.query(text, [...filter.values, limit])).map(read);
  }

  /** The rows that another table names. */
  #named(column: string, inside: readonly SqlCondition[]): SqlCondition {
    const { sql, values } = toWhere(inside);
    return [this.#source.isAmong("id", `SELECT ${column} FROM ${this.#walked} ${sql}`), ...values];
  }

  /** Returns true if no row below the window can be new enough. */
  isOver({ at }: WindowEnd): boolean {
    const { since } = this.#query;
    return (
      since !== undefined &&
      at !== null &&
      at < since - (this.#page.at === "used" ? 0 : DISORDER_MS)
    );
  }
}

/**
 * Looks for rows, newest first, window by window. What an index finds is there immediately; other filters look at row after row. A
 * search that has used up its limits says in `stopped` how far it came: the next one starts there.
 */
export async function search<Q extends ListQuery, T>(
  source: ListSource,
  page: Page<Q, T>,
  query: Q,
  limits: SearchLimits,
): Promise<SearchResult<T>> {
  const limit = Math.min(Math.max(query.limit ?? DEFAULT_LIMIT, 1), MAX_LIMIT);
  const names = page.counted(query);
  const rows: T[] = [];
  if (names && (await source.isNone(names))) return { rows };
  const deadline = performance.now() + limits.ms;
  const windows = new Windows(source, page, query);
  let below = await windows.start();
  for (let n = 1; below !== undefined; n++) {
    const end = windows.isExact ? undefined : await windows.end(below);
    rows.push(...(await windows.rows(below, end?.key ?? [], limit - rows.length)));
    if (rows.length >= limit || !end || windows.isOver(end)) break;
    if (n >= limits.windows || performance.now() >= deadline)
      return { rows, stopped: { before: end.id, at: end.at ?? 0 } };
    below = end.key;
    await source.pause?.();
  }
  return { rows };
}

/** The list of a kind of record, whole (`list`) and as far as one search comes (`search`). */
export const createListing = <K extends SearchedKind>(source: ListSource, kind: K): Listing<K> => ({
  list: async (query) => (await search(source, PAGES[kind], query, UNLIMITED)).rows,
  search: (query) => search(source, PAGES[kind], query, SHORT),
});
