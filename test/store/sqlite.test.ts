import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createLogger } from "../../src/core/log.ts";
import { openStore } from "../../src/store/open.ts";
import { createSqliteGroupCommit, Statements } from "../../src/store/sqlite/connection.ts";
import { createSqlite } from "../../src/store/sqlite/store.ts";
import { SQLITE_MIGRATIONS, prepareDatabase } from "../../src/store/sqlite/schema.ts";
import { sweepSteps } from "../../src/store/sqlite/sweep.ts";
import type { StoreHandle } from "../../src/store/types.ts";
import {
  DAY,
  dedupe,
  event,
  hookSession,
  job,
  runAction,
  START,
  createTestClock,
  turn,
  wakeAction,
} from "./suite/make.ts";
import { silent } from "./home.ts";

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "rouse-sqlite-"));
  file = join(folder, "state", "rouse.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const open = (url = `sqlite:${file}`): Promise<StoreHandle> =>
  openStore({ url, clock: createTestClock(), log: silent });

/** A database whose statements are counted as they run. */
function watched(path: string): { db: DatabaseSync; ran: string[] } {
  const db = new DatabaseSync(path);
  const ran: string[] = [];
  const prepare = db.prepare.bind(db);
  db.prepare = (sql: string): StatementSync => {
    const statement = prepare(sql);
    for (const name of ["run", "get", "all"] as const) {
      const plain = statement[name].bind(statement) as (...values: unknown[]) => unknown;
      Object.assign(statement, {
        [name]: (...values: unknown[]) => {
          ran.push(sql);
          return plain(...values);
        },
      });
    }
    return statement;
  };
  return { db, ran };
}

const KEEP_DAY = {
  bodies: DAY,
  events: DAY,
  runs: DAY,
  hookSessions: DAY,
  apiSessions: DAY,
  deliveries: DAY,
  sessionTurns: 5_000,
};

const path = (): string => join(folder, "plain.db");

describe("openStore", () => {
  it("makes folder and files readable for the owner alone", async () => {
    const { store } = await open();
    await store.accept(event());
    const modeOf = (name: string): number => statSync(name).mode & 0o777;
    expect([
      modeOf(join(folder, "state")),
      modeOf(file),
      modeOf(`${file}-wal`),
      modeOf(`${file}-shm`),
    ]).toEqual([0o700, 0o600, 0o600, 0o600]);
    await store.backup(join(folder, "copy"));
    expect(modeOf(join(folder, "copy"))).toBe(0o600);
    await store.close();
  });

  it.each(["mysql://host/db", "rouse.db", "sqlite:", "sqlite::memory:"])(
    "refuses %s and says what is supported",
    async (url) => {
      await expect(open(url)).rejects.toMatchObject({
        code: "config_invalid",
        message: expect.stringContaining("sqlite:"),
        issues: [{ path: "store.url" }],
      });
    },
  );

  it("refuses a file that is something else, and one of a newer version, and leaves them as they are", async () => {
    const other = join(folder, "other");
    writeFileSync(other, "plain text that is long enough to be no database at all");
    await expect(open(`sqlite:${other}`)).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringContaining("not a database"),
    });
    const { store } = await open();
    await store.close();
    const db = new DatabaseSync(file);
    db.exec("INSERT INTO migrations (version, at) VALUES (99, 0)");
    db.close();
    await expect(open()).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringContaining("newer version"),
    });
  });

  it("waits neither for the disk nor for a lock on the event loop: no sync, no checkpoint and no timeout of SQLite's own", async () => {
    const db = new DatabaseSync(path());
    const { store } = createSqlite(db, createTestClock(), silent);
    const pragma = (name: string): unknown =>
      Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0];
    expect(
      ["journal_mode", "synchronous", "wal_autocheckpoint", "busy_timeout"].map(pragma),
    ).toEqual(["wal", 1, 0, 0]);
    await store.close();
  });

  it("tells keys apart whose numbers are the same", async () => {
    const db = new DatabaseSync(path());
    const { store } = createSqlite(db, createTestClock(), silent);
    const first = event();
    await store.accept(first, [dedupe()]);
    db.prepare(
      "INSERT INTO dedupe (number, scope, key, expires, record) SELECT number, scope, 'twin', expires, ? FROM dedupe",
    ).run(JSON.stringify({ eventId: "evt_twin" }));
    expect(await store.findDuplicates([dedupe()])).toMatchObject([{ eventId: first.id }]);
    await store.close();
  });

  it("brings an older schema forward once, and undoes a step that fails", () => {
    const db = new DatabaseSync(path());
    prepareDatabase(db, START);
    db.exec("INSERT INTO meta VALUES ('a', '1')");
    const versions = (): unknown[] =>
      db
        .prepare("SELECT version FROM migrations ORDER BY version")
        .all()
        .map((row) => row["version"]);
    const next = [...SQLITE_MIGRATIONS, "ALTER TABLE meta ADD COLUMN more TEXT"];
    expect(() =>
      prepareDatabase(db, START, [...next, "CREATE TABLE half (x); SELECT * FROM nowhere;"]),
    ).toThrow("nowhere");
    expect(versions()).toEqual(next.map((_, index) => index + 1));
    expect(
      db.prepare("SELECT count(*) AS n FROM sqlite_schema WHERE name = 'half'").get(),
    ).toMatchObject({ n: 0 });
    prepareDatabase(db, START, next);
    expect(db.prepare("SELECT * FROM meta").all()).toMatchObject([
      { key: "a", value: "1", more: null },
    ]);
    db.close();
  });
});

describe("group commit", () => {
  it("commits together all that comes in during one turn of the event loop and the next ones", async () => {
    const { db, ran } = watched(path());
    const { store } = createSqlite(db, createTestClock(), silent);
    const commits = (): number => ran.filter((sql) => sql === "COMMIT").length;
    const first = Array.from({ length: 15 }, () => store.accept(event({ outcome: "skipped" })));
    const later = new Promise((resolve) => setImmediate(resolve)).then(() =>
      store.accept(event({ outcome: "skipped" })),
    );
    await Promise.all([...first, later]);
    expect(commits()).toBe(1);
    await Promise.all(
      Array.from({ length: 1200 }, () => store.accept(event({ outcome: "skipped" }))),
    );
    expect(commits()).toBe(4);
    await store.close();
  });

  it("deletes a session with many turns in small batches: other work is done in between", async () => {
    const { store } = await open();
    await store.commit((tx) => {
      for (let n = 0; n < 2_100; n++) tx.sessions.addTurn(hookSession(), turn(`r${n}`));
    });
    const counts = new Set<number>();
    const sweeping = store.sweep(START + 400 * DAY, KEEP_DAY).then(() => counts.add(-1));
    while (!counts.has(-1)) {
      counts.add((await store.sessions.listTurns(hookSession())).length);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await sweeping;
    expect([...counts].filter((count) => count > 0 && count < 2_100).length).toBeGreaterThan(2);
    expect(await store.sessions.get(hookSession())).toBeUndefined();
    expect(await store.sessions.listTurns(hookSession())).toEqual([]);
    await store.close();
  });

  it("loses no row of a sweep that is written again because another of its commit failed", async () => {
    const db = new DatabaseSync(path());
    const { store } = createSqlite(db, createTestClock(), silent);
    for (let index = 0; index < 3; index++) await store.accept(event({ outcome: "skipped" }));
    await store.commit((tx) => tx.sessions.addTurn(hookSession(), turn("run_1")));
    await store.counts();
    const sql = new Statements(db);
    const nothing = (): void => undefined;
    const group = createSqliteGroupCommit({
      sql,
      sync: async () => undefined,
      onCommit: nothing,
      onFailure: nothing,
      onBroken: nothing,
    });
    const fails = (): never => {
      throw new Error("of another caller");
    };
    const year = 365 * DAY;
    for (const step of sweepSteps(sql, START + year, KEEP_DAY, Number.MAX_SAFE_INTEGER))
      for (let more = true; more;) {
        const [slice] = await Promise.all([
          group.add(step, { many: true }),
          group.add(fails, { many: true }).catch(nothing),
        ]);
        slice.settle?.();
        more = slice.more;
      }
    expect(await store.events.list({})).toEqual([]);
    expect(await store.sessions.list({})).toEqual([]);
    expect(db.prepare("SELECT seq FROM marks WHERE name = 'bodies'").get()).toEqual({ seq: 3 });
    await store.close();
  });

  it("packs a long body", async () => {
    const db = new DatabaseSync(path());
    const { store } = createSqlite(db, createTestClock(), silent);
    const body = Buffer.from(
      JSON.stringify(
        Array.from({ length: 500 }, (_, index) => ({ id: index, title: `title ${index}` })),
      ),
    );
    const long = event({
      outcome: "skipped",
      request: { method: "POST", headers: {}, query: {}, body },
    });
    await store.accept(long);
    const kept = db.prepare("SELECT length(body) AS bytes, head FROM events").get() as {
      bytes: number;
      head: string;
    };
    expect(kept.bytes).toBeLessThan(body.length / 3);
    expect((await store.events.get(long.id))?.request.body).toEqual(new Uint8Array(body));
    await store.close();
  });

  it("writes one row, by one statement and without a savepoint, for an event without keys", async () => {
    const { db, ran } = watched(path());
    const { store } = createSqlite(db, createTestClock(), silent);
    ran.length = 0;
    const accepting = store.accept(event({ actions: [runAction(), wakeAction()] }));
    await accepting;
    expect(ran.map((sql) => sql.split(" ").slice(0, 3).join(" "))).toEqual([
      "BEGIN IMMEDIATE",
      "INSERT INTO events",
      "COMMIT",
    ]);
    await store.close();
  });
});

describe("a disk that is full", () => {
  it("refuses with store_unavailable, keeps nothing of it, says why in the log, and continues when there is room", async () => {
    const lines: string[] = [];
    const db = new DatabaseSync(path());
    const { store, queue } = createSqlite(
      db,
      createTestClock(),
      createLogger("error", { write: (line) => void lines.push(line) }),
    );
    const first = runAction();
    await store.accept(event({ actions: [first] }));
    await store.counts();
    const [{ page_count: pages }] = db.prepare("PRAGMA page_count").all() as [
      { page_count: number },
    ];
    db.exec(`PRAGMA max_page_count = ${pages + 4}`);

    // Of random bytes, since what repeats itself is kept short.
    const body = Buffer.concat([Buffer.from("the secret body "), randomBytes(60_000)]);
    const big = () =>
      event({ actions: [runAction()], request: { method: "POST", headers: {}, query: {}, body } });
    const events = [big(), big(), event(), big()];
    const results = await Promise.allSettled([
      store.accept(events[0]!),
      store.accept(events[1]!, [dedupe()]),
      store.accept(events[2]!),
      store.accept(events[3]!),
    ]);
    for (const [index, result] of results.entries()) {
      if (result.status === "rejected")
        expect(result.reason).toMatchObject({ name: "RouseError", code: "store_unavailable" });
      // The store has exactly the events whose `accept` resolved.
      expect((await store.events.get(events[index]!.id)) !== undefined).toBe(
        result.status === "fulfilled",
      );
    }
    expect(results.filter((result) => result.status === "rejected").length).toBeGreaterThanOrEqual(
      3,
    );
    expect(lines.join("")).toContain("full");
    expect(lines.join("")).not.toContain("secret");
    expect(await store.findDuplicates([dedupe()])).toEqual([undefined]);

    db.exec("PRAGMA max_page_count = 100000");
    const last = big();
    expect(await store.accept(last, [dedupe()])).toEqual({ kind: "accepted" });
    expect(await queue.fetch("turn", 10)).toMatchObject([{ id: first.runId }]);
    expect(await store.runs.list({})).toHaveLength(2);
    await store.close();
  });

  it("holds work that was accepted until it can be taken up", async () => {
    const db = new DatabaseSync(path());
    const { store, queue } = createSqlite(db, createTestClock(), silent);
    // Runs need more room than the event that they come from: the file may not grow once the event is in it.
    const actions = Array.from({ length: 40 }, (_, n) => runAction(`hook:${n}`));
    await store.accept(event({ actions }));
    const [{ page_count: pages }] = db.prepare("PRAGMA page_count").all() as [
      { page_count: number },
    ];
    db.exec(`PRAGMA max_page_count = ${pages}`);
    await expect(queue.fetch("turn", 100)).rejects.toMatchObject({ code: "store_unavailable" });
    expect(await store.events.get("evt_nobody")).toBeUndefined();
    db.exec("PRAGMA max_page_count = 100000");
    expect(await queue.fetch("turn", 100)).toHaveLength(40);
    await store.close();
  });
});

describe("a commit that cannot be made", () => {
  it("waits for another process without holding up the event loop", async () => {
    const { store } = createSqlite(new DatabaseSync(path()), createTestClock(), silent);
    const other = new DatabaseSync(path());
    other.exec("BEGIN IMMEDIATE");
    let accepted = false;
    const accepting = store.accept(event()).then(() => (accepted = true));
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setTimeout(resolve, 1));
    expect(accepted).toBe(false);
    other.exec("ROLLBACK");
    other.close();
    await accepting;
    expect(await store.events.list({})).toHaveLength(1);
    await store.close();
  });

  it("rejects all of its group; nothing of them stays, and the next one works", async () => {
    const db = new DatabaseSync(path());
    const { store } = createSqlite(db, createTestClock(), silent);
    const other = new DatabaseSync(path());
    other.exec("BEGIN IMMEDIATE");
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const settling = Promise.allSettled([
      store.accept(event(), [dedupe()]),
      store.accept(event()),
      store.commit((tx) => tx.values.set("a", 1)),
    ]);
    let settled = false;
    void settling.then(() => (settled = true));
    while (!settled) {
      await vi.advanceTimersByTimeAsync(1000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    vi.useRealTimers();
    const results = await settling;
    other.exec("ROLLBACK");
    other.close();
    expect(results).toMatchObject(
      Array.from({ length: 3 }, () => ({
        status: "rejected",
        reason: { code: "store_unavailable", cause: expect.anything() },
      })),
    );
    expect(await store.events.list({})).toEqual([]);
    expect(await store.values.get("a")).toBeUndefined();
    expect(await store.accept(event(), [dedupe()])).toEqual({ kind: "accepted" });
    await store.close();
  });
});

describe("ten thousand jobs behind one key", () => {
  it("no statement of the queue looks through them, and their number is the same as for two", async () => {
    const { db, ran } = watched(path());
    const { store, queue } = createSqlite(db, createTestClock(), silent);
    const rounds = async (): Promise<string[]> => {
      ran.length = 0;
      for (let n = 0; n < 2; n++) {
        const [one] = await queue.fetch("turn", 4);
        if (!one) throw new Error("no job is ready");
        await store.commit((tx) => tx.jobs.settle(one), one);
      }
      const [put] = await queue.fetch("turn", 4);
      if (!put) throw new Error("no job is ready");
      await store.commit((tx) => tx.jobs.settle(put, START), put);
      await store.commit((tx) => {
        tx.jobs.add(job("late"));
        tx.jobs.delete("turn", "late");
      });
      return [...ran];
    };
    await store.commit((tx) => {
      for (let n = 0; n < 4; n++) tx.jobs.add(job(`a${n}`));
    });
    const few = await rounds();
    await store.commit((tx) => {
      for (let n = 0; n < 10_000; n++) tx.jobs.add(job(`b${n}`));
    });
    const many = await rounds();
    expect(many).toEqual(few);
    const plans = [...new Set(many)]
      .filter((sql) => /\bjobs\b/.test(sql))
      .flatMap((sql) => {
        const values = Array.from({ length: sql.split("?").length - 1 }, () => null);
        return db
          .prepare(`EXPLAIN QUERY PLAN ${sql}`)
          .all(...values)
          .map((row) => `${String(row["detail"])} ← ${sql}`);
      });
    expect(plans.length).toBeGreaterThan(5);
    expect(plans.filter((plan) => /^SCAN jobs|TEMP B-TREE/.test(plan))).toEqual([]);
    await store.close();
  });
});

describe("a flood of hooks", () => {
  it("holds work back for a while only, where somebody waits for it", async () => {
    const { store, queue } = await open();
    let flood = true;
    let ready = 0;
    queue.onReady(() => void ready++);
    const flooding = (async () => {
      while (flood) await store.accept(event({ actions: [runAction()] }));
    })();
    const started = performance.now();
    while (ready < 2 && performance.now() - started < 30_000)
      await new Promise((resolve) => setTimeout(resolve, 10));
    flood = false;
    await flooding;
    expect(ready).toBeGreaterThanOrEqual(2);
    await store.close();
  });

  it("goes before the work of earlier hooks that is being taken up", async () => {
    const { db, ran } = watched(path());
    const { store } = createSqlite(db, createTestClock(), silent);
    const accept = (): Promise<unknown> => store.accept(event({ actions: [runAction()] }));
    const countRuns = (): number => ran.filter((sql) => sql.includes("INTO runs")).length;
    await Promise.all(Array.from({ length: 2000 }, accept));
    while (countRuns() === 0) await new Promise((resolve) => setImmediate(resolve));
    const call = async (): Promise<void> => {
      for (let n = 0; n < 100; n++) await accept();
    };
    await Promise.all(Array.from({ length: 16 }, call));
    expect(countRuns()).toBeLessThan(1000);
    expect(await store.counts()).toMatchObject({ "runs.queued": 3600 });
    await store.close();
  });
});
