import { expect, it } from "vitest";
import { DAY, HOUR, KEEP, step } from "./suite/make.ts";
import { createPartitionWorld, DIVIDED, type Made, partOf, WHOLE } from "./partition-world.ts";
import { describePostgres } from "./postgres.ts";

describePostgres("the partitions of PostgreSQL's tables", () => {
  const world = createPartitionWorld();
  const { open, openOld, bringTo, within, ask, tables, homeOf, make, shown, fillOld } = world;

  it("the upgrade keeps all rows where they are, and they read and are swept as before", async () => {
    const { now, made, before } = await fillOld();
    const [file] = await ask<{ file: string }>("SELECT pg_relation_filenode('events') AS file");
    const handle = await open();
    expect({
      shown: await shown(handle, made),
      list: await handle.store.list("events", { limit: 10 }),
    }).toEqual(before);
    // Nothing was written again.
    expect(await ask("SELECT pg_relation_filenode('events_before') AS file")).toEqual([file]);
    const days = [0, 1, 2].map((n) => partOf("events", now + n * DAY));
    expect((await tables()).filter((name) => name.startsWith("events"))).toEqual([
      ...days.slice(1),
      "events_before",
      "events_default",
    ]);
    const added = await make(handle, Date.now());
    const [{ seq }] = (await ask<{ seq: string }>("SELECT seq FROM events WHERE id = $1", [
      added.event.id,
    ])) as [{ seq: string }];
    expect(Number(seq)).toBe(made.length + 1);
    await expect(handle.store.accept(made[0]!.event)).rejects.toMatchObject({ code: "internal" });

    await handle.store.sweep(now, KEEP);
    const left = await shown(handle, made);
    expect(
      left.map((one) => [one.event !== undefined, one.run !== undefined, one.steps.length]),
    ).toEqual([
      [false, false, 0],
      [true, true, 1],
      [true, true, 1],
      [true, true, 1],
    ]);
    expect(await handle.store.counts()).toMatchObject({ "events.accepted": 4 });
    // Once all of it is past retention, the old table goes as well.
    await handle.store.sweep(now + 40 * DAY, KEEP);
    expect(await tables()).not.toContain("events_before");
    expect(await handle.store.counts()).toMatchObject({ "events.accepted": 2 });
  });

  it("an old gateway accepts hooks and works while the tables are divided under it, and after that", async () => {
    await bringTo(WHOLE);
    const old = await openOld();
    const made: Made[] = [];
    const errors: unknown[] = [];
    let on = true;
    const accepting = Promise.all(
      Array.from({ length: 4 }, async () => {
        while (on)
          await make(old, Date.now(), Date.now()).then(
            (one) => made.push(one),
            (error: unknown) => errors.push(error),
          );
      }),
    );
    const reading = within(async (client) => {
      await client.query("BEGIN; SELECT count(*) FROM events, steps");
      await new Promise((done) => setTimeout(done, 3000));
      await client.query("COMMIT");
    });
    const whole = Date.now();
    const fresh = await open();
    await reading;
    expect(Date.now() - whole).toBeGreaterThan(2000);
    const during = made.length;
    expect(during).toBeGreaterThan(20);
    await new Promise((done) => setTimeout(done, 500));
    on = false;
    await accepting;
    expect(errors).toEqual([]);
    expect(made.length).toBeGreaterThan(during);
    expect(
      (await shown(fresh, made)).every((one) => one.event && one.run && one.steps.length === 1),
    ).toBe(true);
    expect(await ask("SELECT count(*)::int AS n FROM events")).toEqual([{ n: made.length }]);
  });

  it("what is past retention goes with its partition, without a DELETE; what a run still needs stays", async () => {
    const handle = await open();
    const now = Date.now();
    const made: Made[] = [];
    for (let n = 0; n < 20; n++) made.push(await make(handle, now, now));
    const waits = await make(handle, now);
    await handle.store.commit((tx) => tx.update("run", waits.runId, { status: "waiting" }));
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
    await handle.store.commit((tx) => tx.add("step", step(waits.runId, 1, 1)));
    await handle.store.commit((tx) =>
      tx.update("toolCall", waits.runId, `${waits.runId}.0.0`, { state: "done" }),
    );
    await handle.store.commit((tx) =>
      tx.update("run", waits.runId, { status: "succeeded", endedAt: now }),
    );
    expect(await handle.store.list("steps", waits.runId)).toHaveLength(2);
    await handle.store.sweep(now + 32 * DAY, KEEP);
    expect(await shown(handle, [waits])).toEqual([{ event: undefined, run: undefined, steps: [] }]);
    expect(await ask("SELECT count(*)::int AS n FROM steps")).toEqual([{ n: 0 }]);
  });

  it("indexes are kept without building them again, and new partitions get those that come before or after", async () => {
    const { now } = await fillOld();
    await ask("CREATE INDEX events_path ON events (path, seq DESC) WHERE outcome = 'accepted'");
    const file = (name: string) =>
      ask(
        "SELECT pg_relation_filenode(indexrelid) AS file FROM pg_index WHERE indexrelid = $1::regclass",
        [name],
      );
    const files = [await file("events_path"), await file("events_id"), await file("events_pkey")];
    const handle = await open();
    expect([
      await file("events_before_path"),
      await file("events_before_id"),
      await file("events_before_pkey"),
    ]).toEqual(files);
    await ask("CREATE INDEX steps_at ON steps (at)");
    const next = now + 3 * DAY;
    for (const table of DIVIDED) await ask("SELECT add_partition($1, $2)", [table, next]);
    const indexes = await ask<{ name: string; definition: string }>(
      "SELECT tablename AS name, indexdef AS definition FROM pg_indexes WHERE schemaname = $1 AND tablename = ANY($2)",
      [
        world.schema.name,
        [partOf("events", next), partOf("steps", next), "steps_before", "events_default"],
      ],
    );
    const has = (name: string, definition: RegExp): boolean =>
      indexes.some((one) => one.name === name && definition.test(one.definition));
    for (const name of [partOf("events", next), "events_default"]) {
      expect(has(name, /\(path, seq DESC\) WHERE \(outcome = 'accepted'/)).toBe(true);
      expect(has(name, /UNIQUE INDEX .*\(id\)$/)).toBe(true);
    }
    for (const name of [partOf("steps", next), "steps_before"])
      expect(has(name, /\(at\)$/)).toBe(true);
    await handle.store.sweep(now, KEEP);
  });
});
