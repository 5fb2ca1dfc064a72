import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { MAX_NOTES, type NewNote, type Note, Memory } from "../../src/people/notes.ts";
import { searchTexts } from "../../src/knowledge/short-texts.ts";
import { openStore } from "../../src/store/open.ts";
import { channelSession, mainSession, type StoreHandle } from "../../src/store/types.ts";
import { silent, sqliteHome } from "../store/home.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";

const MAIN = mainSession("main");
it("notes: they are found by words in their inflections, compounds and languages, the best first", () => {
  const notes = [
    "The owner's sister lives in Berlin.",
    "Die Donaudampfschifffahrtsgesellschaft zahlt jeden Monat am ersten Tag und nicht früher.",
    "客户喜欢绿茶，不喝咖啡。",
    "Встреча с бухгалтером всегда по понедельникам, в десять утра.",
    "The invoices of the garage are paid by the landlord.",
    "The garage key is under the mat.",
  ];
  const found = (query: string): number[] => searchTexts(notes, query);
  expect(found("sisters")).toEqual([0]);
  expect(found("Dampfschifffahrt")[0]).toBe(1);
  expect(found("咖啡")).toEqual([2]);
  expect(found("встречи с бухгалтером")[0]).toBe(3);
  expect(found("garage key").slice(0, 2)).toEqual([5, 4]);
  expect(found("spaceship")).toEqual([]);
  expect(searchTexts([], "key")).toEqual([]);
});

const toNew = (text: string, callId: string, more: Partial<NewNote> = {}): NewNote => ({
  text,
  origin: "trusted",
  runId: "run_1",
  callId,
  ...more,
});
const openMemory = ({ store, cluster }: StoreHandle): Memory =>
  new Memory({ store, cluster, clock: systemClock }, async (...of) => searchTexts(...of));
const textsOf = async (memory: Memory, scope = MAIN): Promise<string[]> =>
  (await memory.list(scope)).map(({ text }) => text);

describe("notes in a store", () => {
  it("are kept once for each call, up to the limit of a conversation, and go when they are cleared", async () => {
    const home = await sqliteHome();
    const handle = await home.open();
    const memory = openMemory(handle);
    const first = await memory.add(MAIN, toNew("one", "c1"));
    expect(await memory.add(MAIN, toNew("one", "c1"))).toEqual(first);
    await Promise.all(
      Array.from({ length: MAX_NOTES - 1 }, (_, index) =>
        memory.add(MAIN, toNew(`note ${index}`, `d${index}`)),
      ),
    );
    expect(await memory.add(MAIN, toNew("too many", "c2"))).toBe("full");
    expect(
      await memory.add(MAIN, toNew("in its place", "c3", { replaces: (first as Note).id })),
    ).toMatchObject({ text: "in its place" });
    const other = channelSession("main", "pipe", { from: "bob", to: "dm", direct: true });
    expect(await memory.add(other, toNew("Bob's", "c4"))).toMatchObject({ text: "Bob's" });
    expect(await memory.clear(MAIN)).toBe(MAX_NOTES);
    expect([await textsOf(memory), await textsOf(memory, other)]).toEqual([[], ["Bob's"]]);
    await handle.store.close();
    await home.remove();
  });
});

describePostgres("notes of several gateways", () => {
  let schema: Schema;
  const opened: StoreHandle[] = [];
  beforeEach(() => void (schema = newSchema()));
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((handle) => handle.store.close()));
    await schema.drop();
  });
  const open = async (): Promise<Memory> => {
    const handle = await openStore({ url: schema.url, clock: systemClock, log: silent });
    opened.push(handle);
    return openMemory(handle);
  };

  it("are all kept if they note at the same time, and each sees them immediately", async () => {
    const [a, b] = [await open(), await open()];
    await Promise.all(
      [1, 2, 3].flatMap((n) => [
        a.add(MAIN, toNew(`a${n}`, `a${n}`)),
        b.add(MAIN, toNew(`b${n}`, `b${n}`)),
      ]),
    );
    expect((await textsOf(a)).toSorted()).toEqual(["a1", "a2", "a3", "b1", "b2", "b3"]);
    await a.add(MAIN, toNew("seen", "c"));
    expect(await textsOf(b)).toContain("seen");
    expect(await b.listScopes()).toEqual([MAIN]);
  });
});
