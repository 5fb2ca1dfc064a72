import { beforeEach, describe, expect, it } from "vitest";
import {
  createBookmarks,
  MAX_BOOKMARKS,
  type Bookmarks,
} from "../../src/operate/records/bookmarks.ts";
import {
  listEvents,
  type EventsQuery,
  type SearchBounds,
} from "../../src/operate/records/list-events.ts";
import type { AdminDeps } from "../../src/operate/types.ts";
import { newId } from "../../src/core/ids.ts";
import type { EventRecord } from "../../src/store/types.ts";
import { event, START, type Home } from "./suite/make.ts";
import { createStage } from "./suite/stage.ts";
import { sqliteHome } from "./home.ts";
import { describePostgres, postgresHome } from "./postgres.ts";

const json = (body: unknown): EventRecord["request"] => ({
  method: "POST",
  contentType: "application/json",
  headers: {},
  query: {},
  body: Buffer.from(JSON.stringify(body)),
});

function createSearch(makeHome: () => Promise<Home>) {
  const stage = createStage(makeHome);
  let bookmarks: Bookmarks;
  let at = 0;
  beforeEach(() => void (bookmarks = createBookmarks(stage)));
  const add = async (change: Partial<EventRecord> = {}): Promise<EventRecord> => {
    const given = event({
      id: newId("evt", START + at++),
      path: "shop",
      outcome: "skipped",
      actions: [],
      ...change,
    });
    await stage.store.accept(given);
    return given;
  };
  const list = (query: Partial<EventsQuery>, bounds?: SearchBounds) =>
    listEvents({ store: stage.store, bookmarks } as AdminDeps, { limit: 50, ...query }, bounds);
  const find = async (search: string): Promise<string[]> =>
    (await list({ search })).events.map(({ id }) => id);
  return { stage, add, list, find, bookmarks: () => bookmarks };
}

describe("a search among events", () => {
  const { add, find } = createSearch(sqliteHome);

  it("searches id, path, mapping and reason, in any case, and all words have to be there", async () => {
    const order = await add({ mapping: "shop.order", reason: 'a person said "Later"' });
    const other = await add({ path: "alerts" });
    expect(await find("SHOP.order")).toEqual([order.id]);
    expect(await find("shop later")).toEqual([order.id]);
    expect(await find("later alerts")).toEqual([]);
    expect(await find(other.id.slice(-12))).toEqual([other.id]);
  });

  it("searches fields of bodies as templates name them", async () => {
    const order = await add({
      request: json({
        type: "order",
        data: { total: 240, note: "big, and red", ok: null },
        lines: [{ sku: "a" }, { sku: "b" }],
      }),
    });
    await add({ request: json({ type: "refund", data: { total: 24 } }) });
    await add({ request: { ...json(null), body: null } });
    await add({ request: { ...json(null), body: Buffer.from([0xff, 0xfe]) } });
    for (const search of [
      "type:ORDER",
      "data.total:240",
      'data.note:"big, and red"',
      "data.note:big*red",
      "lines.sku:b",
      "lines[0].sku:a",
      "data.ok:null",
      "data.note:",
      "shop type:order data.total:240",
    ])
      expect(await find(search), search).toEqual([order.id]);
    for (const search of [
      "data.total:2",
      "type:*x*",
      "data.note:big*blue*red",
      "type:orderorder*order",
      "total:240",
      '"type:order"',
    ])
      expect(await find(search), search).toEqual([]);
  });

  it("searches words in bodies, however the sender wrote them", async () => {
    const order = await add({
      request: json({ note: "Grüße, two   words", lines: [{ sku: "Red-7" }], total: 240 }),
    });
    const escaped = await add({
      request: { ...json(null), body: Buffer.from('{"note":"Gr\\u00fc\\u00dfe"}') },
    });
    const form = await add({
      request: {
        ...json(null),
        contentType: "application/x-www-form-urlencoded",
        body: Buffer.from("text=later+today"),
      },
    });
    await add({ request: { ...json(null), body: null } });
    for (const [search, ids] of [
      ["red-7", [order.id]],
      ["shop RED 240", [order.id]],
      ["grüße", [escaped.id, order.id]],
      ['"later today"', [form.id]],
      ["red later", []],
    ] as const)
      expect(await find(search), search).toEqual(ids);
  });
});

/** Tests the parts of a search that each store does in its own way. */
function testStore(makeHome: () => Promise<Home>): void {
  const { stage, add, list, find, bookmarks } = createSearch(makeHome);

  it("asks an index for a whole id and an outcome, and the store for a path and a mapping", async () => {
    const oldest = await add({ path: "Alerts", mapping: "alerts.one", outcome: "failed" });
    const body = await add({ request: json({ path: "alerts", outcome: "failed" }) });
    for (let n = 0; n < 30; n++) await add({ mapping: "shop.order" });
    const bounds = { ms: Infinity, events: 1, bytes: Infinity };
    for (const search of [
      oldest.id,
      "outcome:failed",
      "path:Alerts",
      "mapping:alerts.one",
      `path:Alerts ${oldest.id} outcome:failed`,
    ]) {
      const { events, looked, next } = await list({ search }, bounds);
      expect([search, events.map(({ id }) => id), looked, next]).toEqual([
        search,
        [oldest.id],
        1,
        null,
      ]);
    }
    expect(await find("path:Al*s")).toEqual([oldest.id]);
    expect(await find("payload.path:alerts")).toEqual([body.id]);
    expect(await find(`path:shop path:Alerts`)).toEqual([]);
    expect((await list({ search: "path:Alerts", path: "shop" })).events).toEqual([]);
  });

  it("ends a search at its bounds, says how far it looked, and continues from there without a gap", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 70; n++)
      ids.unshift(
        (await add({ request: json({ n, even: n % 2 === 0 }), receivedAt: START + n * 1000 })).id,
      );
    const bounds = { ms: Infinity, events: 20, bytes: Infinity };
    const seen: string[] = [];
    let before: string | undefined;
    let pages = 0;
    for (;;) {
      const page = await list(
        { search: "even:true", ...(before === undefined ? {} : { before }) },
        bounds,
      );
      seen.push(...page.events.map(({ id }) => id));
      pages++;
      if (page.next === null) break;
      const last = ids.indexOf(page.next);
      expect(page.searchedTo).toBe(new Date(START + (69 - last) * 1000).toISOString());
      expect(page.looked).toBe(20);
      before = page.next;
    }
    expect(pages).toBeGreaterThan(1);
    expect(seen).toEqual(ids.filter((_, index) => index % 2 === 1));
  });

  it("ends a search whose bodies are long, and pages one that finds much", async () => {
    for (let n = 0; n < 40; n++) await add({ request: json({ n, filler: "x".repeat(20_000) }) });
    const page = await list({ search: "n:0" }, { ms: Infinity, events: Infinity, bytes: 100_000 });
    expect(page).toMatchObject({ events: [], searchedTo: expect.any(String) });
    expect(page.looked).toBeLessThan(40);
    const first = await list({ search: "filler:x*", limit: 15 });
    const rest = await list({ search: "filler:x*", limit: 50, before: first.next ?? "" });
    expect([first.events.length, first.searchedTo, rest.events.length, rest.next]).toEqual([
      15,
      null,
      25,
      null,
    ]);
    expect(new Set([...first.events, ...rest.events].map(({ id }) => id)).size).toBe(40);
  });

  it("lists bookmarked events, with the filters of every list, and leaves no copy behind", async () => {
    const [a, b, c] = [
      await add({ request: json({ n: 1 }) }),
      await add({ path: "alerts" }),
      await add({ request: json({ n: 2 }) }),
    ];
    for (const one of [c, a, b]) await bookmarks().add(one.id, undefined);
    const bookmarked = async (query: Partial<EventsQuery>) =>
      (await list({ bookmarked: true, ...query })).events.map(({ id }) => id);
    expect(await bookmarked({})).toEqual([c.id, b.id, a.id]);
    expect(await bookmarked({ path: "shop" })).toEqual([c.id, a.id]);
    expect(await bookmarked({ search: "n:1" })).toEqual([a.id]);
    expect(await bookmarked({ failed: true })).toEqual([]);
    const first = await list({ bookmarked: true, limit: 2 });
    expect(first.next).toBe(b.id);
    expect(await bookmarked({ before: b.id })).toEqual([a.id]);
    await bookmarks().remove(c.id);
    expect(await stage.store.values.get(`events.bookmarks.${c.id}`)).toBeNull();
  });

  it("refuses more bookmarks than there may be, and changes the note of one that is there", async () => {
    const one = await add();
    await stage.store.commit((tx) =>
      tx.values.set("events.bookmarks", [
        { eventId: one.id, at: START },
        ...Array.from({ length: MAX_BOOKMARKS - 1 }, (_, n) => ({
          eventId: `evt_${n}`,
          at: START,
        })),
      ]),
    );
    await bookmarks().add(one.id, "again");
    expect((await bookmarks().find(one.id))?.note).toBe("again");
    await expect(bookmarks().add((await add()).id, undefined)).rejects.toThrow(
      `${MAX_BOOKMARKS} bookmarks`,
    );
  });
}

describe("a search among events in SQLite", () => testStore(sqliteHome));
describePostgres("a search among events in PostgreSQL", () => testStore(postgresHome));
