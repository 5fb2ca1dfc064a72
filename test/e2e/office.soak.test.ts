import { afterEach, describe, expect, it } from "vitest";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { surviveDay } from "./office/killed.ts";
import { passDay } from "./office/run.ts";
import { NOTHING } from "./office/verdict.ts";

const SEED = Number(process.env["OFFICE_SEED"] ?? 1);
const OFFICE = { seed: SEED, people: 200, rooms: 40, hours: 24, scenes: 40 };
const KILLED = { seed: SEED, people: 30, rooms: 9, hours: 10, scenes: 16 };
/** With a shared store each kill costs the ten seconds of a lease. */
const SHORT = { ...KILLED, hours: 4 };

/** `killed`: the day with kills. */
function officeTests(storeConfig: () => object, killed = KILLED): void {
  it("200 people in 40 rooms: no model reads what was said elsewhere, and all is answered once while one answer is slow", async () => {
    const { verdict, day } = await passDay(OFFICE, storeConfig());
    const { marks, asked, slowest } = day.ledger;
    console.log(`${marks.size} texts, ${asked.length} requests; ${JSON.stringify(Object.fromEntries(day.played))}`);
    console.log(`the longest wait: ${slowest.ms} ms for ${slowest.what}`);
    expect(verdict).toEqual(NOTHING);
    expect(day.meanwhile).toEqual(Array.from({ length: OFFICE.hours }, () => OFFICE.scenes));
    // Quick messages were collected, or each text would have a request of its own.
    const answered = [...marks.values()].filter(({ fate }) => fate === "answered");
    expect(asked.length).toBeLessThan(answered.length);
  }, 600_000);

  it("30 people, and a program that is killed again and again: no message is lost or answered twice", async () => {
    const { verdict, day, kills } = await surviveDay(killed, storeConfig());
    const { marks, asked, unknown } = day.ledger;
    console.log(`${kills} kills, ${marks.size} texts, ${asked.length} requests; ${unknown.length} messages of unknown outcome`);
    // What a gateway cannot know it tells its operator, who decides; all else has arrived once.
    expect(verdict).toEqual(NOTHING);
    expect(kills).toBeGreaterThanOrEqual(killed.hours - 2);
  }, 300_000);
}

describe("a day in the office, on SQLite", () => officeTests(() => ({})));

describePostgres("a day in the office, on PostgreSQL", () => {
  let schema: Schema | undefined;
  afterEach(() => schema?.drop());
  officeTests(() => {
    schema = newSchema();
    return { store: { url: schema.url } };
  }, SHORT);
});
