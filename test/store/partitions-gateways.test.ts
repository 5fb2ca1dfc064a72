import { expect, it, vi } from "vitest";
import { newId } from "../../src/core/ids.ts";
import type { StoreHandle } from "../../src/store/types.ts";
import { DAY, event, HOUR, KEEP } from "./suite/make.ts";
import { createPartitionWorld, DIVIDED, type Made, partOf } from "./partition-world.ts";
import { describePostgres, plainly } from "./postgres.ts";

describePostgres("gateways and the partitions of PostgreSQL's tables", () => {
  const { database, tables, homeOf, make, shown } = createPartitionWorld();
  const { open, within, query } = database;

  /** Rows of yesterday, as a gateway leaves them that made the partitions of that day. `over`: when these are past retention. */
  const fillYesterday = async (
    handle: StoreHandle,
  ): Promise<{ parts: string[]; over: number; made: Made[]; waits: Made }> => {
    const at = Date.now() - DAY;
    for (const table of DIVIDED) await query("SELECT add_partition($1, $2)", [table, at]);
    const made: Made[] = [];
    for (let n = 0; n < 5; n++) made.push(await make(handle, at, at));
    const over = (Math.floor(at / DAY) + 1) * DAY + KEEP.events + HOUR + 1000;
    return {
      parts: DIVIDED.map((table) => partOf(table, at)),
      over,
      made,
      waits: await make(handle, at),
    };
  };
  /** As if no gateway had been there for so long that the last partitions are of the past. */
  const dropPartitionsAhead = async (): Promise<void> => {
    const names = (await tables()).filter((name) => /_\d{8}$/.test(name));
    await within((client) => client.query(`DROP TABLE ${names.join(", ")}`));
  };
  const accept = async (handle: StoreHandle, at: number): Promise<string> => {
    const id = newId("evt", at);
    await handle.store.accept(event({ id, receivedAt: at }));
    return id;
  };
  /** A user who may only read and write the tables, and one who may do nothing. */
  const withRoles = async (
    work: (writer: string, stranger: string) => Promise<void>,
  ): Promise<void> => {
    const { name } = database.schema;
    const [writer, stranger] = [`${name}_app`, `${name}_other`];
    await plainly((client) =>
      client.query(`CREATE ROLE ${writer} LOGIN; CREATE ROLE ${stranger}; GRANT USAGE ON SCHEMA ${name} TO ${writer}, ${stranger};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${name} TO ${writer}`),
    );
    try {
      await work(writer, stranger);
    } finally {
      await database.closeAll();
      await plainly((client) =>
        client.query(`DROP OWNED BY ${writer}, ${stranger}; DROP ROLE ${writer}, ${stranger}`),
      );
    }
  };

  it("sweep at once beside a long reader and accept meanwhile; the sweep after it drops what was read", async () => {
    const handles = [await open(), await open()];
    const { parts, over, waits } = await fillYesterday(handles[0]!);
    let [accepted, on] = [0, true];
    const accepting = Promise.all(
      handles.map(async (handle) => {
        for (; on; accepted++) {
          await accept(handle, Date.now());
          await new Promise((done) => setTimeout(done, 5));
        }
      }),
    );
    const sweepAll = () => Promise.all(handles.map((handle) => handle.store.sweep(over, KEEP)));
    await within(async (client) => {
      await client.query(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM events, steps, tool_calls",
      );
      await handles[0]!.store.sweep(over, KEEP);
      expect(await tables()).toEqual(expect.arrayContaining(parts));
      // Hooks wait behind a sweep that waits for a lock for half a second, and not for the reader.
      const before = accepted;
      await vi.waitFor(() => expect(accepted).toBeGreaterThan(before + 50));
      await client.query("COMMIT");
    });
    await sweepAll();
    on = false;
    await accepting;
    const left = await tables();
    expect(parts.filter((name) => left.includes(name))).toEqual([]);
    expect(await query("SELECT count(*)::int AS n FROM events")).toEqual([{ n: accepted + 1 }]);
    expect(await handles[1]!.store.counts()).toMatchObject({ "events.accepted": accepted + 1 });
    expect((await shown(handles[1]!, [waits]))[0]?.steps).toHaveLength(1);
  });

  it("accept after a week away; the rows move to their partition, and those of other days are swept one by one", async () => {
    const handle = await open();
    await dropPartitionsAhead();
    const now = Date.now();
    const [today, earlier] = [await accept(handle, now), await accept(handle, now - 3 * DAY)];
    expect([await homeOf(today), await homeOf(earlier)]).toEqual([
      "events_default",
      "events_default",
    ]);
    await handle.store.sweep(now, KEEP);
    expect([await homeOf(today), await homeOf(earlier)]).toEqual([
      partOf("events", now),
      "events_default",
    ]);
    expect(await tables()).toEqual(
      expect.arrayContaining(
        [1, 2].flatMap((n) => DIVIDED.map((table) => partOf(table, now + n * DAY))),
      ),
    );
    await handle.store.sweep(now - 3 * DAY + KEEP.events + 1000, KEEP);
    expect([await homeOf(today), await homeOf(earlier)]).toEqual([
      partOf("events", now),
      undefined,
    ]);
  });

  it("leave a partition for tomorrow if too many rows would have to be moved into it", async () => {
    const handle = await open();
    await dropPartitionsAhead();
    const now = Date.now();
    await accept(handle, now);
    const copies = `INSERT INTO events (id, at, path, credential, outcome, head)
      SELECT left(id, 13) || lpad(n::text, 26, '0'), at, path, credential, outcome, head FROM events, generate_series(1, 10000) AS n`;
    await query(copies);
    await query("INSERT INTO count_deltas (name, n) VALUES ('events.accepted', 10000)");
    await handle.store.sweep(now, KEEP);
    expect(await tables()).not.toContain(partOf("events", now));
    expect(await tables()).toContain(partOf("events", now + DAY));
    await handle.store.sweep(now + KEEP.events + 1000, KEEP);
    expect(await query("SELECT count(*)::int AS n FROM events")).toEqual([{ n: 0 }]);
    expect(await handle.store.counts()).toMatchObject({ "events.accepted": 0 });
  });

  it("make and drop partitions as a user who may only read and write", async () => {
    await open();
    await withRoles(async (writer, stranger) => {
      const handle = await open((url) => (url.username = writer));
      await dropPartitionsAhead();
      await handle.store.sweep(Date.now(), KEEP);
      expect(await homeOf(await accept(handle, Date.now()))).toBe(partOf("events", Date.now()));
      const { parts, over, made, waits } = await fillYesterday(handle);
      await handle.store.sweep(over, KEEP);
      const left = await tables();
      expect(parts.filter((name) => left.includes(name))).toEqual([]);
      const [gone, kept] = await shown(handle, [made[0]!, waits]);
      expect([gone?.event, kept?.event?.id]).toEqual([undefined, waits.event.id]);
      await expect(
        within((client) => client.query(`SET ROLE ${stranger}; SELECT add_partition('events', 0)`)),
      ).rejects.toMatchObject({
        code: "42501",
      });
    });
  });

  it("cannot be made to drop more by names, or by tables of the caller that have a name of ours", async () => {
    const handle = await open();
    const { parts, over, waits } = await fillYesterday(handle);
    const [part] = parts;
    await withRoles(async (writer, stranger) => {
      const as = (role: string, text: string, values?: unknown[]) =>
        within(async (client) => {
          await client.query(
            `SET ROLE ${role}; CREATE TEMP TABLE runs (id text, event_id text, status text, ended bigint)`,
          );
          return client.query(text, values);
        });
      const drop = "SELECT drop_partition($1, $2, $3, $3)::int AS n";
      await expect(as(stranger, drop, ["events", part, over])).rejects.toMatchObject({
        code: "42501",
      });
      for (const [parent, name] of [
        ["jobs", "jobs"],
        ["events", "jobs"],
        ["events", 'events"; DROP TABLE jobs; --'],
        ["events'; DROP TABLE jobs; --", part],
        ["events", "events_default"],
      ])
        expect((await as(writer, drop, [parent, name, over])).rows).toEqual([{ n: 0 }]);
      await expect(as(writer, "SELECT add_partition('jobs', 0)")).rejects.toMatchObject({
        code: "P0002",
      });
      expect((await as(writer, drop, ["events", part, over])).rows).toEqual([{ n: 5 }]);
      expect((await handle.store.events.get(waits.event.id))?.id).toBe(waits.event.id);
    });
  });
});
