import { expect, it } from "vitest";
import { DAY, HOUR, KEEP, step } from "./suite/make.ts";
import { createPartitionWorld, DIVIDED, type Made, partOf } from "./partition-world.ts";
import { describePostgres } from "./postgres.ts";

describePostgres("the partitions of PostgreSQL's tables", () => {
  const { database, tables, homeOf, make, shown } = createPartitionWorld();
  const { open, within, query } = database;

  it("what is past retention goes with its partition, without a DELETE; what a run still needs stays", async () => {
    const handle = await open();
    const now = Date.now();
    const made: Made[] = [];
    for (let n = 0; n < 20; n++) made.push(await make(handle, now, now));
    const waits = await make(handle, now);
    await handle.store.commit((tx) => tx.runs.update(waits.runId, { status: "waiting" }));
    const [before] = await shown(handle, [waits]);
    const today = DIVIDED.map((table) => partOf(table, now));
    expect(await tables()).toEqual(expect.arrayContaining(today));
    // A row that is deleted from the partition makes this fail the sweep.
    await within((client) =>
      client.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a row was deleted'; END $$;
        ${today.map((name) => `CREATE TRIGGER refuse BEFORE DELETE ON ${name} FOR EACH ROW EXECUTE FUNCTION refuse();`).join(" ")}`),
    );
    const over = (Math.floor(now / DAY) + 1) * DAY + KEEP.events + HOUR;
    await handle.store.sweep(over - 1000, KEEP);
    expect(await tables()).toEqual(expect.arrayContaining(today));
    await handle.store.sweep(over + 1000, KEEP);
    const after = await tables();
    expect(today.filter((name) => after.includes(name))).toEqual([]);
    const gone = await shown(handle, made);
    expect(gone.every((one) => !one.event && !one.run && one.steps.length === 0)).toBe(true);

    const [kept] = await shown(handle, [waits]);
    expect(kept).toEqual(before);
    expect(await homeOf(waits.event.id)).toBe("events_default");
    expect(await handle.store.counts()).toMatchObject({ "events.accepted": 1 });
    // It goes on: another step, an end, and then it is past retention as well.
    await handle.store.commit((tx) => tx.steps.add(step(waits.runId, 1, 1)));
    await handle.store.commit((tx) =>
      tx.steps.updateCall(waits.runId, `${waits.runId}.0.0`, { state: "done" }),
    );
    await handle.store.commit((tx) =>
      tx.runs.update(waits.runId, { status: "succeeded", endedAt: now }),
    );
    expect(await handle.store.steps.list(waits.runId)).toHaveLength(2);
    await handle.store.sweep(now + 32 * DAY, KEEP);
    expect(await shown(handle, [waits])).toEqual([{ event: undefined, run: undefined, steps: [] }]);
    expect(await query("SELECT count(*)::int AS n FROM steps")).toEqual([{ n: 0 }]);
  });

  it("new partitions get the indexes that come before or after", async () => {
    const handle = await open();
    const now = Date.now();
    await query("CREATE INDEX events_path ON events (path, seq DESC) WHERE outcome = 'accepted'");
    const next = now + 3 * DAY;
    for (const table of DIVIDED) await query("SELECT add_partition($1, $2)", [table, next]);
    await query("CREATE INDEX steps_at ON steps (at)");
    const indexes = await query<{ name: string; definition: string }>(
      "SELECT tablename AS name, indexdef AS definition FROM pg_indexes WHERE schemaname = $1 AND tablename = ANY($2)",
      [database.schema.name, [partOf("events", next), partOf("steps", next), "events_default"]],
    );
    const has = (name: string, definition: RegExp): boolean =>
      indexes.some((one) => one.name === name && definition.test(one.definition));
    for (const name of [partOf("events", next), "events_default"]) {
      expect(has(name, /\(path, seq DESC\) WHERE \(outcome = 'accepted'/)).toBe(true);
      expect(has(name, /UNIQUE INDEX .*\(id\)$/)).toBe(true);
    }
    expect(has(partOf("steps", next), /\(at\)$/)).toBe(true);
    await handle.store.sweep(now, KEEP);
  });
});
