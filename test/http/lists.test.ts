import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { newId } from "../../src/core/ids.ts";
import type { EventView } from "../../src/operate/records/views.ts";
import { createWorld, event_, type World } from "./admin-world.ts";

const ROWS = 120_000;
/** Every so many events one is of the path that is looked for. */
const EVERY = 9000;

let world: World;
let db: DatabaseSync;
let wanted: string[];

beforeEach(async () => {
  world = await createWorld();
  await world.store.accept(event_("other"));
  db = new DatabaseSync(join(world.dir, "rouse.db"));
  wanted = fill();
});
afterEach(async () => {
  db.close();
  await world.close();
});

/** Copies the one event many times. Returns the ids that a search is to find, newest first. */
function fill(): string[] {
  const ids: string[] = [];
  const now = Date.now();
  const insert =
    db.prepare(`INSERT INTO events (seq, id, at, path, credential, outcome, mapping, head)
    SELECT ?, ?, ?, ?, credential, 'unmatched', NULL, head FROM events WHERE seq = 1`);
  db.exec("BEGIN");
  for (let seq = 2; seq <= ROWS; seq++) {
    const at = now - ROWS + seq;
    const id = newId("evt", at);
    const isWanted = seq % EVERY === 0;
    if (isWanted) ids.unshift(id);
    insert.run(seq, id, at, isWanted ? "shop" : "other");
  }
  db.exec(`UPDATE marks SET seq = ${ROWS} WHERE name = 'intake'; COMMIT`);
  return ids;
}

interface Page {
  events: EventView[];
  next: string | null;
  searchedTo: string | null;
}

async function ask(before: string | null): Promise<Page> {
  const response = await world.request(
    `/events?path=shop&limit=5${before === null ? "" : `&before=${before}`}`,
  );
  expect(response.status).toBe(200);
  return (await response.json()) as Page;
}

/** Reads all pages; `between` runs before each further one, with the id that names its beginning. */
async function readAll(
  between: (next: string) => void = () => undefined,
): Promise<{ ids: string[]; stops: number }> {
  const ids: string[] = [];
  let [next, stops]: [string | null, number] = [null, 0];
  do {
    const page = await ask(next);
    ids.push(...page.events.map(({ id }) => id));
    if (page.searchedTo !== null) stops++;
    ({ next } = page);
    if (next !== null) between(next);
  } while (next !== null);
  return { ids, stops };
}

it("lists: paging continues if the event that `before` names is deleted", async () => {
  const deleted: string[] = [];
  const { ids, stops } = await readAll((next) => {
    deleted.push(next);
    db.prepare("DELETE FROM events WHERE id = ?").run(next);
  });
  // No event is missing but deleted ones. An event that was found before its deletion stays in the list.
  expect(ids).toEqual(wanted.filter((id) => ids.includes(id) || !deleted.includes(id)));
  expect(deleted.length).toBeGreaterThan(1);
  expect(stops).toBeGreaterThan(0);
});
