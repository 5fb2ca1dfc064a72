import type pg from "pg";
import { afterEach, beforeEach } from "vitest";
import { parseAddress } from "../../plugins/postgres/address.ts";
import { openDb } from "../../plugins/postgres/db.ts";
import { migrate } from "../../plugins/postgres/migrate.ts";
import { MIGRATIONS } from "../../plugins/postgres/schema.ts";
import { systemClock } from "../../src/core/clock.ts";
import { newId } from "../../src/core/ids.ts";
import { openStore } from "../../src/store/open.ts";
import type { EventRecord, StoreHandle } from "../../src/store/types.ts";
import { DAY, event, runAction, step } from "./suite/make.ts";
import { silent } from "./home.ts";
import { newSchema, plainly, type Schema } from "./postgres.ts";

export const DIVIDED = ["events", "steps", "tool_calls"];
/** The last version of the schema with whole tables. */
export const WHOLE = MIGRATIONS.findIndex((step) => step.includes("PARTITION BY"));
/** The name of a partition, as the days of UTC give it. */
export const partOf = (table: string, at: number): string =>
  `${table}_${new Date(at).toISOString().slice(0, 10).replaceAll("-", "")}`;

export interface Made {
  event: EventRecord;
  runId: string;
}

/** A database for each test of the surrounding `describe`, with what the tests of partitions do to it. */
export function createPartitionWorld() {
  let schema: Schema;
  let opened: StoreHandle[] = [];
  beforeEach(() => {
    schema = newSchema();
    opened = [];
  });
  const closeAll = async (): Promise<void> =>
    void (await Promise.all(opened.splice(0).map((handle) => handle.store.close())));
  afterEach(async () => {
    await closeAll();
    await schema.drop();
  });

  const open = async (url = schema.url): Promise<StoreHandle> => {
    const handle = await openStore({ url, clock: systemClock, log: silent });
    opened.push(handle);
    return handle;
  };
  const bringTo = async (version: number): Promise<void> => {
    const db = await openDb(parseAddress(schema.url), silent);
    try {
      await migrate(db, MIGRATIONS.slice(0, version));
    } finally {
      await db.close();
    }
  };
  const within = <T>(work: (client: pg.Client) => Promise<T>): Promise<T> =>
    plainly(async (client) => {
      await client.query(`SET search_path TO "${schema.name}"`);
      return work(client);
    });
  const ask = <T extends object>(text: string, values: unknown[] = []): Promise<T[]> =>
    within(async (client) => (await client.query<T>(text, values)).rows);
  /** The tables that hold rows, as PostgreSQL's catalogue has them. */
  const tables = async (): Promise<string[]> => {
    const text =
      "SELECT relname AS name FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r' ORDER BY 1";
    const rows = await ask<{ name: string }>(text, [schema.name]);
    return rows
      .map(({ name }) => name)
      .filter((name) => DIVIDED.some((table) => name.startsWith(`${table}_`)));
  };
  const homeOf = async (id: string): Promise<string | undefined> =>
    (
      await ask<{ part: string }>(
        "SELECT tableoid::regclass::text AS part FROM events WHERE id = $1",
        [id],
      )
    )[0]?.part;

  /** An event of a time, with a run that has made a step and called a tool. */
  const make = async ({ store }: StoreHandle, at: number, endedAt?: number): Promise<Made> => {
    const runId = newId("run", at);
    const made = event({
      id: newId("evt", at),
      receivedAt: at,
      actions: [runAction(undefined, { runId })],
    });
    await store.accept(made);
    await store.commit((tx) =>
      tx.add("step", { ...step(runId, 0, 1), startedAt: at, endedAt: at }),
    );
    if (endedAt !== undefined)
      await store.commit((tx) => tx.update("run", runId, { status: "succeeded", endedAt }));
    return { event: made, runId };
  };
  /** What remains of events and their runs. */
  const shown = ({ store }: StoreHandle, made: readonly Made[]) =>
    Promise.all(
      made.map(async (one) => ({
        event: await store.get("event", one.event.id),
        run: await store.get("run", one.runId),
        steps: await store.list("steps", one.runId),
      })),
    );
  /** Rows that a gateway wrote days ago: the tables then had no partitions for these days. */
  const fillOld = async (): Promise<{ now: number; made: Made[]; before: unknown }> => {
    await bringTo(WHOLE);
    const now = Date.now();
    // The statements that write are those of the version before; only the schema is not brought up to date.
    const handle = await openOld();
    const made: Made[] = [];
    for (const [age, ended] of [
      [40, true],
      [39, false],
      [10, true],
      [0, true],
    ] as const)
      made.push(await make(handle, now - age * DAY, ended ? now - age * DAY : undefined));
    const before = {
      shown: await shown(handle, made),
      list: await handle.store.list("events", { limit: 10 }),
    };
    return { now, made, before };
  };
  /** A gateway of the version before: it finds the schema as it knows it, and does not change it. */
  const openOld = async (): Promise<StoreHandle> => {
    const fresh = MIGRATIONS as string[];
    const later = fresh.splice(WHOLE);
    try {
      return await open();
    } finally {
      fresh.push(...later);
    }
  };

  return {
    get schema() {
      return schema;
    },
    open,
    openOld,
    closeAll,
    bringTo,
    within,
    ask,
    tables,
    homeOf,
    make,
    shown,
    fillOld,
  };
}
