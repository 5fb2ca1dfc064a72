/**
 * Measures the lists of the admin API in a store with many events: first pages, pages from the middle, and filters that find
 * nothing, or the oldest row only.
 * `npm run bench:lists [-- --events 10000000] [--store sqlite|postgres] [--rounds 10] [--keep] [--url <store.url>]`
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { parseArgs } from "node:util";
import pg from "pg";
import { systemClock } from "../src/core/clock.ts";
import { createLogger } from "../src/core/log.ts";
import { openStore } from "../src/store/open.ts";
import { median } from "./measure.ts";
import { countStatements, fillStatements, type Dialect } from "./lists-fill.ts";
import { withSchema } from "./postgres.ts";
import { startGateway, withServers } from "./servers.ts";

const { values } = parseArgs({
  options: {
    events: { type: "string", default: "10000000" },
    store: { type: "string", multiple: true, default: ["sqlite", "postgres"] },
    rounds: { type: "string", default: "10" },
    keep: { type: "boolean", default: false },
    url: { type: "string" },
  },
});
const EVENTS = Number(values.events);
const ROUNDS = Number(values.rounds);
const TOKEN = "bench-operator-token-0123456789";
/** Searches that are continued so often are measured no further. */
const MAX_PAGES = 40;

const SQLITE: Dialect = {
  numbers: (first, last) =>
    `(WITH RECURSIVE n(i) AS (SELECT ${first} UNION ALL SELECT i + 1 FROM n WHERE i < ${last}) SELECT i FROM n)`,
  digits: (number, count) => `printf('%0${count}d', ${number})`,
  body: (bytes) => `randomblob(${bytes})`,
  sessionId: undefined,
};
const POSTGRES: Dialect = {
  numbers: (first, last) => `generate_series(${first}::bigint, ${last}::bigint) AS n(i)`,
  digits: (number, count) => `lpad((${number})::text, ${count}, '0')`,
  body: (bytes) => `decode(repeat(md5(i::text), ${Math.ceil(bytes / 16)}), 'hex')`,
  sessionId: "substring(sha256(convert_to(?, 'UTF8')) for 16)",
};

const note = (text: string): void => void process.stderr.write(`${text}\n`);

function fillSqlite(file: string): void {
  const db = new DatabaseSync(file);
  db.exec("PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY; PRAGMA cache_size=-400000");
  const triggers = db
    .prepare("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    .all() as { name: string; sql: string }[];
  for (const { name } of triggers) db.exec(`DROP TRIGGER ${name}`);
  for (const statement of [...fillStatements(EVENTS, Date.now(), SQLITE), ...countStatements()])
    db.exec(statement);
  for (const { sql } of triggers) db.exec(sql);
  db.exec(`UPDATE marks SET seq = ${EVENTS}; PRAGMA journal_mode=WAL`);
  db.close();
}

async function fillPostgres(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    `SET search_path TO "${new URL(url).searchParams.get("schema")}"; SET synchronous_commit TO off`,
  );
  const tables = ["events", "runs", "deliveries", "approvals", "sessions"];
  for (const table of tables) await client.query(`ALTER TABLE ${table} DISABLE TRIGGER USER`);
  for (const statement of [...fillStatements(EVENTS, Date.now(), POSTGRES), ...countStatements()])
    await client.query(statement);
  for (const table of tables) {
    await client.query(`ALTER TABLE ${table} ENABLE TRIGGER USER; ANALYZE ${table}`);
    if (table !== "sessions")
      await client.query(
        `SELECT setval(pg_get_serial_sequence('${table}', 'seq'), (SELECT max(seq) FROM ${table}))`,
      );
  }
  await client.end();
}

interface Answer {
  next: string | null;
  searchedTo: string | null;
}

interface Measured {
  /** Milliseconds of each request. */
  ms: number[];
  rows: number;
  pages: number;
  /** The list was full or at its end. */
  whole: boolean;
}

async function ask(
  port: number,
  path: string,
): Promise<{ answer: Answer & Record<string, unknown>; ms: number }> {
  const began = performance.now();
  const response = await fetch(`http://127.0.0.1:${port}/admin/v1${path}`, {
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  const text = await response.text();
  const ms = performance.now() - began;
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return { answer: JSON.parse(text) as Answer & Record<string, unknown>, ms };
}

const count = (answer: Record<string, unknown>): number =>
  Object.values(answer).find((value) => Array.isArray(value))?.length ?? 0;

/** Reads a list as the command line does: a search that ended early is continued. */
async function measure(port: number, path: string): Promise<Measured> {
  const measured: Measured = { ms: [], rows: 0, pages: 0, whole: false };
  let query = path;
  for (; measured.pages < MAX_PAGES && !measured.whole; measured.pages++) {
    const { answer, ms } = await ask(port, query);
    measured.ms.push(ms);
    measured.rows += count(answer);
    measured.whole = !answer.searchedTo || measured.rows >= 50;
    query = `${path}&before=${encodeURIComponent(answer.next ?? "")}`;
  }
  return measured;
}

const FILTERS: Record<string, string[]> = {
  events: [
    "",
    "outcome=accepted",
    "outcome=unmatched",
    "outcome=failed",
    "outcome=rejected",
    "path=path-3",
    "path=rare",
    "path=none",
    "mapping=mapping-3",
    "mapping=rare",
    "mapping=none",
    "failed=1",
    "failed=1&path=path-3",
    "failed=1&path=none",
    "outcome=failed&path=rare",
    "outcome=failed&mapping=none",
    "outcome=unmatched&path=none",
    "outcome=accepted&path=rare",
    "since=1h",
    "since=20d",
    `since=1h&path=none`,
    "since=20d&outcome=failed",
    "since=1h&failed=1",
    "idPrefix=evt_0000",
    "idPrefix=evt_000000001",
    "idPrefix=evt_none",
    "idPrefix=evt_0&path=none",
  ],
  runs: [
    "",
    "status=succeeded",
    "status=failed",
    "status=timed_out",
    "status=cancelled",
    "status=running",
    "status=waiting",
    "sessionKey=hook:shared-3",
    "sessionKey=hook:rare",
    "sessionKey=hook:none",
    "eventId=none",
    "status=failed&sessionKey=hook:shared-3",
    "status=failed&sessionKey=hook:none",
    "since=1h",
    "since=1h&status=failed",
    "idPrefix=run_0000",
  ],
  deliveries: [
    "",
    "status=delivered",
    "status=failed",
    "status=no_route",
    "status=unknown",
    "status=pending",
    "channel=channel-1",
    "channel=rare",
    "channel=none",
    "status=failed&channel=none",
    "since=1h",
  ],
  approvals: [
    "",
    "state=open",
    "state=decided",
    "runId=none",
    "state=decided&runId=none",
    "since=1h",
  ],
  sessions: [
    "",
    "origin=hook",
    "origin=api",
    "origin=channel",
    "origin=main",
    "agent=rare",
    "agent=none",
    "origin=hook&agent=none",
    "origin=api&agent=none",
    "since=1h",
  ],
};
/** Requests other than lists. */
const OTHERS = ["/status", "/doctor", "/refusals?limit=100"];

interface Line {
  list: string;
  p50: number;
  max: number;
  pages: number;
  rows: number;
  whole: boolean;
}

async function repeat(list: string, once: () => Promise<Measured>): Promise<Line> {
  const all: Measured[] = [];
  for (let round = 0; round < ROUNDS; round++) all.push(await once());
  const ms = all.flatMap((one) => one.ms);
  const [first] = all as [Measured];
  return {
    list,
    p50: median(ms),
    max: Math.max(...ms),
    pages: first.pages,
    rows: first.rows,
    whole: first.whole,
  };
}

async function run(url: string): Promise<Line[]> {
  const forever = {
    events: "365d",
    runs: "365d",
    hookSessions: "365d",
    apiSessions: "365d",
    deliveries: "365d",
  };
  const config = {
    gateway: { port: 0, drainSeconds: 0, token: TOKEN },
    store: { url, retention: forever },
    hooks: { retention: "365d" },
  };
  return withServers([startGateway(config, { workers: false })], async ([server]) => {
    const { port } = server as { port: number };
    const lines: Line[] = [];
    for (const [name, filters] of Object.entries(FILTERS)) {
      for (const filter of filters) {
        lines.push(
          await repeat(`${name}?${filter}`, () => measure(port, `/${name}?limit=50&${filter}`)),
        );
      }
      const deep = name === "sessions" ? middleSession() : await findMiddle(port, name);
      for (const filter of filters.filter((one) => one === "" || !one.includes("idPrefix")))
        lines.push(
          await repeat(`${name}?${filter} from the middle`, () =>
            measureOne(port, `/${name}?limit=50&${filter}&before=${encodeURIComponent(deep)}`),
          ),
        );
    }
    for (const path of OTHERS) lines.push(await repeat(path, () => measureOne(port, path)));
    return lines;
  });
}

/** One page only. */
async function measureOne(port: number, path: string): Promise<Measured> {
  const { answer, ms } = await ask(port, path);
  return { ms: [ms], rows: count(answer), pages: 1, whole: !answer.searchedTo };
}

/** The session in the middle, of a hook. */
function middleSession(): string {
  const middle = Math.floor(EVENTS / 40);
  return `main/hook/key-${middle % 10 === 0 ? middle + 1 : middle}`;
}

/** The id of a row in the middle of the table, by the beginning of ids. */
async function findMiddle(port: number, name: string): Promise<string> {
  const every: Record<string, number> = { events: 1, runs: 3, deliveries: 30, approvals: 100 };
  const type: Record<string, string> = {
    events: "evt",
    runs: "run",
    deliveries: "dlv",
    approvals: "apr",
  };
  const number = Math.floor(EVENTS / (every[name] ?? 1) / 2);
  const { answer } = await ask(
    port,
    `/${name}?limit=1&idPrefix=${type[name]}_${String(number).padStart(9, "0")}`,
  );
  return (answer[name] as { id: string }[])[0]?.id ?? "";
}

function print(title: string, lines: readonly Line[]): void {
  console.log(
    `\n${title}\n${"p50 ms".padStart(8)}${"max ms".padStart(8)}${"pages".padStart(7)}${"rows".padStart(6)}  list`,
  );
  for (const { list, p50, max, pages, rows, whole } of lines)
    console.log(
      `${p50.toFixed(1).padStart(8)}${max.toFixed(1).padStart(8)}${`${pages}${whole ? "" : "+"}`.padStart(7)}${String(rows).padStart(6)}  ${list}`,
    );
}

async function create(url: string, work: () => Promise<void> | void): Promise<void> {
  const { store } = await openStore({ url, clock: systemClock, log: createLogger("error") });
  await store.close();
  const began = performance.now();
  await work();
  note(`${url}: filled in ${Math.round((performance.now() - began) / 1000)} s`);
}

async function onSqlite(): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-bench-lists-"));
  const url = `sqlite:${join(dir, "rouse.db")}`;
  try {
    await create(url, () => fillSqlite(join(dir, "rouse.db")));
    print("SQLite", await run(url));
  } finally {
    if (!values.keep) rmSync(dir, { recursive: true, force: true });
  }
}

async function onPostgres(): Promise<void> {
  await withSchema(async (url) => {
    await create(url, () => fillPostgres(url));
    print("PostgreSQL", await run(url));
  }, values.keep);
}

if (values.url !== undefined) print(values.url, await run(values.url));
else if (values.store.includes("sqlite")) await onSqlite();
if (values.url === undefined && values.store.includes("postgres")) await onPostgres();
