import { describe, expect, it } from "vitest";
import { passDay } from "./office/run.ts";
import { NOTHING } from "./office/verdict.ts";

const SMALL = { people: 12, rooms: 4, hours: 3, scenes: 14 };

describe("a day of 12 people in 4 rooms on three channels", () => {
  it.each(["per-person", "shared"] as const)(
    "no model reads what was said elsewhere, and all is answered once while one answer is slow; direct messages are %s",
    async (dmScope) => {
      const { verdict, day } = await passDay({ ...SMALL, seed: 3, dmScope });
      expect(verdict).toEqual(NOTHING);
      expect(day.meanwhile).toEqual(Array.from({ length: SMALL.hours }, () => SMALL.scenes));
    },
    150_000,
  );
});
