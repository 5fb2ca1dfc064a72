import { expect, it } from "vitest";
import type { Store, Writes } from "../../src/store/types.ts";
import { manualClock } from "../delivery/support.ts";
import { newParking } from "../parking.ts";

it("wakes a run that waits behind one that was woken here, and waits at another gateway by now", async () => {
  const clock = manualClock();
  let woken: string[] = [];
  const update = (_of: string, _kind: string, id: string): void => void woken.push(id);
  const commit: Store["commit"] = async (write) => {
    write({ update } as unknown as Writes);
    return true;
  };
  const parking = newParking({ commit }, clock);
  const park = (id: string): void => parking.park({ id, kind: "turn", key: "main/hook/one" }, ["local/big"]);
  park("first");
  await clock.advance(1);
  expect(woken).toEqual(["first"]);
  // Another gateway has taken the first one, and lets it wait once more: this one hears nothing of that.
  park("second");
  await clock.advance(29_000);
  expect(woken).toEqual(["first"]);
  woken = [];
  await clock.advance(31_000);
  expect(woken).toEqual(["first", "second"]);
});
