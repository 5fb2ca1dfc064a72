import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { StoredList } from "../../src/store/stored-list.ts";
import type { Store } from "../../src/store/types.ts";

/** A store with one value, whose first read is as slow as the test wants it. */
function openList() {
  let value: unknown = ["a"];
  const { promise: firstRead, resolve: endFirstRead } = Promise.withResolvers<void>();
  let reads = 0;
  const store = {
    values: {
      async get() {
        const read = value;
        if (++reads === 1) await firstRead;
        return read;
      },
    },
    async commit(write: (tx: object) => void) {
      write({ values: { set: (_name: string, next: unknown) => void (value = next) } });
      return true;
    },
  } as unknown as Store;
  const cluster = { shared: false, hold: () => Promise.reject(new Error("no other gateway")) };
  return {
    list: new StoredList<string>("letters", { store, cluster, clock: systemClock }),
    endFirstRead,
  };
}

describe("a list in a store", () => {
  it("forgets no change that was made while an older read was in progress", async () => {
    const { list, endFirstRead } = openList();
    const slow = list.read();
    await list.change((before) => ({ list: [...before, "b"], result: undefined }));
    endFirstRead();
    expect(await slow).toEqual(["a", "b"]);
    expect(await list.read()).toEqual(["a", "b"]);
    await list.change((before) => ({ list: [...before, "c"], result: undefined }));
    expect(await list.read()).toEqual(["a", "b", "c"]);
  });
});
