import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createSqliteGroupCommit } from "../../src/store/sqlite/group-commit.ts";
import { Statements } from "../../src/store/sqlite/statements.ts";

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
    const write = (caller: number) => () => void db.prepare("INSERT INTO written VALUES (?)").run(caller);
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

describe("a group that is on its way to the disk", () => {
  let db: DatabaseSync;
  beforeEach(() => {
    db = new DatabaseSync(":memory:");
    db.exec("CREATE TABLE written (caller INTEGER)");
  });
  afterEach(() => db.close());

  /** A group commit whose syncs end when the test says so. */
  function open() {
    const syncs: { resolve(): void; reject(error: Error): void }[] = [];
    const broken: unknown[] = [];
    const group = createSqliteGroupCommit({
      sql: new Statements(db),
      sync: () => new Promise((resolve, reject) => void syncs.push({ resolve, reject })),
      onCommit: () => undefined,
      onFailure: () => undefined,
      onBroken: (error) => void broken.push(error),
    });
    const add = (caller: number): Promise<number> =>
      group.add(() => Number(db.prepare("INSERT INTO written VALUES (?)").run(caller).changes), { many: false });
    return { group, add, syncs, broken };
  }

  async function until(done: () => boolean): Promise<void> {
    while (!done()) await nextTurn();
  }

  const countRows = (): unknown => db.prepare("SELECT count(*) AS n FROM written").get();

  it("does not hold up the next one, which is answered by its own sync; a third waits", async () => {
    const { group, add, syncs } = open();
    const answered: number[] = [];
    const callers = [1, 2, 3].map(async (caller) => {
      await until(() => syncs.length === Math.min(caller - 1, 2));
      await add(caller);
      answered.push(caller);
    });
    await until(() => syncs.length === 2 && group.waiting === 3);
    for (let turns = 0; turns < 10; turns++) await nextTurn();
    expect([countRows(), syncs.length, answered]).toEqual([{ n: 2 }, 2, []]);
    syncs[1]?.resolve();
    await until(() => syncs.length === 3);
    expect([countRows(), answered]).toEqual([{ n: 3 }, [2]]);
    let isDurable = false;
    const durable = group.durable().then(() => (isDurable = true));
    syncs[2]?.resolve();
    for (let turns = 0; turns < 10; turns++) await nextTurn();
    expect([isDurable, answered]).toEqual([false, [2, 3]]);
    syncs[0]?.resolve();
    await Promise.all([durable, ...callers]);
  });

  it("takes the next one with it if its sync fails, though the sync of that one succeeds", async () => {
    const { add, syncs, broken } = open();
    const first = add(1);
    await until(() => syncs.length === 1);
    const second = add(2);
    await until(() => syncs.length === 2);
    const results = Promise.allSettled([first, second]);
    syncs[0]?.reject(new Error("the disk has failed"));
    await nextTurn();
    syncs[1]?.resolve();
    const codes = (await results).map((result) => result.status === "rejected" && (result.reason as { code?: string }).code);
    expect(codes).toEqual(["store_unavailable", "store_unavailable"]);
    expect(broken).toHaveLength(1);
    await expect(add(3)).rejects.toMatchObject({ code: "store_unavailable" });
  });
});
