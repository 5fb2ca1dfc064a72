import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { copyLog, openHold, restartLog } from "../../src/store/sqlite/restart-log.ts";

let dir: string;
let gateway: DatabaseSync;
let thread: DatabaseSync;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-restart-log-"));
  const open = (): DatabaseSync => {
    const db = new DatabaseSync(join(dir, "rouse.db"));
    db.exec(
      "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA busy_timeout=50;",
    );
    return db;
  };
  gateway = open();
  thread = open();
  gateway.exec(
    "CREATE TABLE notes (text TEXT); CREATE TABLE marks (name TEXT PRIMARY KEY, seq INTEGER)",
  );
});
afterEach(() => {
  gateway.close();
  thread.close();
  rmSync(dir, { recursive: true, force: true });
});

const size = (): number => copyLog(thread, "NOOP").frames;
const write = (): void => gateway.exec("INSERT INTO notes VALUES ('one more')");

describe("a log that is copied while the gateway writes", () => {
  it("is not started again from its beginning by the gateway's next commit, though all of it was copied", () => {
    const hold = openHold(join(dir, "rouse.db"));
    for (let n = 0; n < 20; n++) write();
    hold.take();
    expect(copyLog(thread).isComplete).toBe(true);
    const before = size();
    write();
    expect(size()).toBeGreaterThan(before);
    hold.release();
    expect(restartLog(thread).isComplete).toBe(true);
    write();
    expect(size()).toBeLessThan(before);
    hold.close();
  });

  it("continues while a reader needs it, and is emptied afterwards", () => {
    write();
    const reader = openHold(join(dir, "rouse.db"));
    reader.take();
    write();
    const before = size();
    expect(restartLog(thread).isComplete).toBe(false);
    expect(size()).toBeGreaterThan(before);
    reader.close();
    expect(restartLog(thread).isComplete).toBe(true);
    expect(size()).toBeLessThan(before);
    // The first commit to the new log is the thread's.
    expect(size()).toBeGreaterThan(0);
  });
});
