import { newId } from "../../src/core/ids.ts";
import type { EventRecord, StoreHandle } from "../../src/store/types.ts";
import { event, runAction, step } from "./suite/make.ts";
import { createDatabase } from "./postgres.ts";

export const DIVIDED = ["events", "steps", "tool_calls"];
/** The name of a partition, as the days of UTC give it. */
export const partOf = (table: string, at: number): string =>
  `${table}_${new Date(at).toISOString().slice(0, 10).replaceAll("-", "")}`;

export interface Made {
  event: EventRecord;
  runId: string;
}

/** A database for each test of the surrounding `describe`, with what the tests of partitions do to it. */
export function createPartitionWorld() {
  const database = createDatabase();
  const { query } = database;
  /** The tables that hold rows, as PostgreSQL's catalogue has them. */
  const tables = async (): Promise<string[]> => {
    const text =
      "SELECT relname AS name FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r' ORDER BY 1";
    const rows = await query<{ name: string }>(text, [database.schema.name]);
    return rows
      .map(({ name }) => name)
      .filter((name) => DIVIDED.some((table) => name.startsWith(`${table}_`)));
  };
  const homeOf = async (id: string): Promise<string | undefined> =>
    (
      await query<{ part: string }>(
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
    await store.commit((tx) => tx.steps.add({ ...step(runId, 0, 1), startedAt: at, endedAt: at }));
    if (endedAt !== undefined)
      await store.commit((tx) => tx.runs.update(runId, { status: "succeeded", endedAt }));
    return { event: made, runId };
  };
  /** The rest of events and their runs. */
  const shown = ({ store }: StoreHandle, made: readonly Made[]) =>
    Promise.all(
      made.map(async (one) => ({
        event: await store.events.get(one.event.id),
        run: await store.runs.get(one.runId),
        steps: await store.steps.list(one.runId),
      })),
    );
  return { database, tables, homeOf, make, shown };
}
