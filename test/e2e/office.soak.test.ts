import { afterEach, describe, expect, it } from "vitest";
import { scale } from "../soak.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import type { Size } from "./office/day.ts";
import { surviveDay } from "./office/killed.ts";
import { passDay } from "./office/run.ts";
import { NOTHING } from "./office/verdict.ts";

const SEED = Number(process.env["OFFICE_SEED"] ?? 1);
type Days = [office: Size, killed: Size];
const OFFICE: Size = {
  seed: SEED,
  people: scale(80, 200),
  rooms: scale(20, 40),
  hours: scale(2, 24),
  scenes: 40,
};
const KILLED: Size = {
  seed: SEED,
  people: scale(20, 30),
  rooms: scale(6, 9),
  hours: scale(2, 10),
  scenes: scale(10, 16),
};

/** What the days are on a shared store, where they take longer: each kill costs the ten seconds of a lease. */
const SHARED: Days = [
  { ...OFFICE, hours: scale(1, 24) },
  { ...KILLED, hours: scale(2, 4) },
];

function officeTests(storeConfig: () => object, [office, killed]: Days = [OFFICE, KILLED]): void {
  it(`${office.people} people in ${office.rooms} rooms: no model reads what was said elsewhere, and all is answered once while one answer is slow`, async () => {
    const { verdict, day } = await passDay(office, storeConfig());
    const { marks, asked } = day.ledger;
    console.log(
      `${marks.size} texts, ${asked.length} requests; ${JSON.stringify(Object.fromEntries(day.played))}`,
    );
    expect(verdict).toEqual(NOTHING);
    expect(day.meanwhile).toEqual(Array.from({ length: office.hours }, () => office.scenes));
    // Quick messages were collected, or each text would have a request of its own.
    const answered = [...marks.values()].filter(({ fate }) => fate === "answered");
    expect(asked.length).toBeLessThan(answered.length);
  }, 600_000);

  it(`${killed.people} people, and a program that is killed again and again: no message is lost or answered twice`, async () => {
    const { verdict, day, kills } = await surviveDay(killed, storeConfig());
    const { marks, asked, unknown } = day.ledger;
    console.log(
      `${kills} kills, ${marks.size} texts, ${asked.length} requests; ${unknown.length} messages of unknown outcome`,
    );
    // What a gateway cannot know it tells its operator, who decides; all else has arrived once.
    expect(verdict).toEqual(NOTHING);
    expect(kills).toBeGreaterThanOrEqual(Math.max(1, killed.hours - 2));
  }, 300_000);
}

describe("a day in the office, on SQLite", () => officeTests(() => ({})));

describePostgres("a day in the office, on PostgreSQL", () => {
  let schema: Schema | undefined;
  afterEach(() => schema?.drop());
  officeTests(() => {
    schema = newSchema();
    return { store: { url: schema.url } };
  }, SHARED);
});
