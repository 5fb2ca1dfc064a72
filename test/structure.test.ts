import { describe, expect, it } from "vitest";
import { findViolations, GATES, readKnown, readProject } from "./structure/gates.ts";

describe("the structure of the code", () => {
  const files = readProject();
  const known = readKnown();

  // `known.json` lists violations that are still to be repaired. `scripts/known-violations.ts` removes repaired ones.
  it.each(Object.keys(GATES))("%s", (title) => {
    expect(findViolations(GATES[title] ?? (() => []), files)).toEqual(known[title] ?? {});
  });

  it("the list of known violations names gates that exist", () => {
    expect(Object.keys(known).filter((title) => !(title in GATES))).toEqual([]);
  });
});
