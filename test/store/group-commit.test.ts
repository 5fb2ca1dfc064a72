import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSqliteGroupCommit, Statements } from "../../src/store/sqlite/connection.ts";

const CALLERS = 16;
const ROUNDS = 20;
const SYNC_MS = 2;

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("callers that write again after each answer", () => {
  let db: DatabaseSync;
  beforeEach(() => {
    db = new DatabaseSync(":memory:");
    db.exec("CREATE TABLE written (caller INTEGER)");
  });
  afterEach(() => db.close());

  it("share one sync, though they do not come back at the same time", async () => {
    let syncs = 0;
    const group = createSqliteGroupCommit({
      sql: new Statements(db),
      sync() {
        syncs++;
        return new Promise((resolve) => setTimeout(resolve, SYNC_MS));
      },
      onCommit: () => undefined,
      onFailure: () => undefined,
      onBroken: () => undefined,
    });
    const write = (caller: number) => () =>
      void db.prepare("INSERT INTO written VALUES (?)").run(caller);
    const call = async (caller: number): Promise<void> => {
      for (let round = 0; round < ROUNDS; round++) {
        await group.add(write(caller), { many: false });
        for (let turns = caller; turns > 0; turns -= 4) await nextTurn();
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, (_, caller) => call(caller)));
    expect(db.prepare("SELECT count(*) AS n FROM written").get()).toEqual({ n: CALLERS * ROUNDS });
    expect(syncs).toBeLessThanOrEqual(1.2 * ROUNDS);
  });
});
