import { expect, it } from "vitest";
import { scale } from "../soak.ts";
import { savePairs } from "./saves.ts";

const GATEWAYS = 4;
const PAIRS = scale(8, 50);

it("the second of two saves is applied, 0 to 700 ms after the first, while files beside them grow", async () => {
  const all = await Promise.all(
    Array.from({ length: GATEWAYS }, (_, gateway) =>
      savePairs(PAIRS, (pair) => ((gateway * PAIRS + pair) * 37) % 701),
    ),
  );
  const waits = all.flatMap((saves) => saves.waits).toSorted((a, b) => a - b);
  console.log(
    `${waits.length} pairs applied; from the last save: median ${Math.round(waits[waits.length >> 1] ?? 0)} ms, longest ${Math.round(waits.at(-1) ?? 0)} ms, over 2 s: ${waits.filter((wait) => wait > 2000).length}`,
  );
  expect(all.map(({ applied }) => applied)).toEqual(all.map(() => PAIRS));
  for (const { logged, last } of all) {
    expect(logged.length).toBeGreaterThanOrEqual(PAIRS);
    expect(last.startsWith(logged.at(-1) ?? "none")).toBe(true);
  }
}, 1_200_000);
