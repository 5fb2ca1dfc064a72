import { afterEach, beforeEach, expect, it } from "vitest";
import {
  createEventFeed,
  MAX_READERS,
  type StreamLine,
} from "../../src/operate/records/event-feed.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { openStore } from "../../src/store/open.ts";
import { describePostgres, newSchema, plainly } from "../store/postgres.ts";
import { createWorld, event_, type World } from "./admin-world.ts";

let world: World;
const open: { cancel(): Promise<void> }[] = [];
beforeEach(async () => {
  world = await createWorld();
});
afterEach(async () => {
  for (const reader of open.splice(0)) await reader.cancel();
  await world.close();
});

interface StreamReader {
  /** Reads lines, without those that only say that the stream is alive, until `isEnough`. */
  until(isEnough: (lines: readonly StreamLine[]) => boolean): Promise<StreamLine[]>;
  cancel(): Promise<void>;
}

function read(body: ReadableStream<Uint8Array> | null): StreamReader {
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  const lines: StreamLine[] = [];
  const decoder = new TextDecoder();
  let rest = "";
  const stream: StreamReader = {
    async until(isEnough) {
      while (!isEnough(lines)) {
        const { done, value } = await reader.read();
        if (done) break;
        const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
        rest = parts.pop() ?? "";
        for (const part of parts) {
          const line = JSON.parse(part) as StreamLine;
          if (line.type !== "alive") lines.push(line);
        }
      }
      return lines.splice(0);
    },
    cancel: () => reader.cancel(),
  };
  open.push(stream);
  return stream;
}

async function follow(query = ""): Promise<StreamReader> {
  const response = await world.request(`/stream${query}`);
  expect([response.status, response.headers.get("content-type")]).toEqual([
    200,
    "application/x-ndjson",
  ]);
  return read(response.body);
}

/** Writes events, one after the other, and returns their ids. */
async function write(count: number, path = "shop"): Promise<string[]> {
  const events = Array.from({ length: count }, () => event_(path));
  await Promise.all(events.map((event) => world.store.accept(event)));
  return events.map(({ id }) => id);
}

const ids = (lines: readonly StreamLine[]): string[] =>
  lines.flatMap((line) => (line.type === "event" ? [line.event.id] : []));
const skipped = (lines: readonly StreamLine[]): number =>
  lines.reduce((sum, line) => sum + (line.type === "skipped" ? line.count : 0), 0);
const total = (lines: readonly StreamLine[]): number => ids(lines).length + skipped(lines);

it("event stream: it begins with the newest events, oldest first, and continues with new ones", async () => {
  const before = await write(4);
  const stream = await follow("?lines=2");
  expect(ids(await stream.until((lines) => lines.length === 2))).toEqual(before.slice(2));
  const after = await write(3);
  expect(ids(await stream.until((lines) => lines.length === 3))).toEqual(after);
});

it("event stream: a path chooses its events", async () => {
  await write(2, "other");
  const stream = await follow("?path=shop&lines=5");
  await write(2, "other");
  const wanted = await write(1);
  await write(1, "other");
  expect(ids(await stream.until((lines) => lines.length === 1))).toEqual(wanted);
});

it("event stream: it continues after an event without a gap, and reports the number of events that it leaves out", async () => {
  const [first = ""] = await write(1);
  const few = await write(5);
  const stream = await follow(`?after=${first}`);
  expect(ids(await stream.until((lines) => lines.length === 5))).toEqual(few);
  await stream.cancel();
  const many = await write(700);
  const again = await follow(`?after=${few.at(-1)}`);
  const lines = await again.until((read_) => total(read_) >= 700);
  expect([total(lines), skipped(lines)]).toEqual([700, 400]);
  expect(ids(lines)).toEqual(many.slice(400));
  const later = await write(1);
  expect(ids(await again.until((read_) => read_.length === 1))).toEqual(later);
});

it("event stream: events are left out and counted if a reader is too slow", async () => {
  const stream = await follow("?lines=0");
  for (let n = 0; n < 4; n++) {
    await write(250);
    await systemClock.sleep(600);
  }
  const lines = await stream.until((read_) => total(read_) >= 1000);
  expect(total(lines)).toBe(1000);
  expect(skipped(lines)).toBeGreaterThan(400);
});

it("event stream: an event that is no longer kept, an unknown filter and too many readers are refused", async () => {
  const status = async (query: string): Promise<number> => {
    const { status: code, body } = await world.request(`/stream${query}`);
    if (code === 200) read(body);
    return code;
  };
  expect(await status("?after=evt_absent")).toBe(404);
  expect(await status("?pth=shop")).toBe(400);
  for (let n = 0; n < MAX_READERS; n++) expect(await status("")).toBe(200);
  expect(await status("")).toBe(503);
  await open[0]?.cancel();
  expect(await status("")).toBe(200);
});

describePostgres("with other gateways on the store", () => {
  it("shows an event that is written later than one with a higher number", async () => {
    const schema = newSchema();
    const log = createLogger("silent");
    const { store } = await openStore({ url: schema.url, clock: systemClock, log });
    const sql = (text: string, values: unknown[] = []): Promise<{ rows: { seq: number }[] }> =>
      plainly(async (client) => {
        await client.query(`SET search_path TO "${schema.name}"`);
        return client.query<{ seq: number }>(text, values);
      });
    try {
      const stream = createEventFeed({
        store,
        clock: systemClock,
        log,
        isShared: true,
        isStopping: () => false,
      });
      const lines = await stream.follow({ lines: 0 });
      const paths: string[] = [];
      const readTo = async (count: number): Promise<void> => {
        while (paths.length < count) {
          const { value } = (await lines.next()) as { value: StreamLine };
          if (value.type === "event") paths.push(value.event.path);
        }
      };
      await store.accept(event_("first"));
      // Another gateway takes its number now, and commits after the next event was read.
      const { rows } = await sql(
        "SELECT nextval(pg_get_serial_sequence('events', 'seq'))::int AS seq",
      );
      await store.accept(event_("second"));
      await readTo(2);
      const copied = "at, credential, outcome, mapping, head, actions, body";
      await sql(
        `INSERT INTO events (seq, id, path, ${copied}) SELECT $1, $2, 'late', ${copied} FROM events WHERE path = 'second'`,
        [rows[0]?.seq, event_("late").id],
      );
      await readTo(3);
      expect(paths).toEqual(["first", "second", "late"]);
      await lines.return?.();
    } finally {
      await store.close();
      await schema.drop();
    }
  });
});
