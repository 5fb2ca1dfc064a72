import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createBatch } from "../../plugins/postgres/records/reads.ts";
import { shareInTurn } from "../../src/core/pause.ts";

describe("a batch", () => {
  it("asks together for what is asked during one turn, in questions of at most 64 keys, each with its own answer", async () => {
    const questions: number[] = [];
    const ask = createBatch(async (keys: readonly number[]) => {
      questions.push(keys.length);
      return keys.map((key) => key * 2);
    });
    const keys = Array.from({ length: 100 }, (_, n) => n);
    expect(await Promise.all(keys.map(ask))).toEqual(keys.map((key) => key * 2));
    expect(await ask(7)).toBe(14);
    expect(questions).toEqual([64, 36, 1]);
  });

  it("that fails fails for its own keys", async () => {
    const ask = createBatch(async (keys: readonly number[]) => {
      if (keys.includes(0)) throw new Error("on purpose");
      return keys;
    });
    const results = await Promise.allSettled(Array.from({ length: 65 }, (_, n) => ask(n)));
    expect(results.map(({ status }) => status)).toEqual([
      ...Array.from({ length: 64 }, () => "rejected"),
      "fulfilled",
    ]);
    expect(await ask(1)).toBe(1);
  });
});

describe("a question that is shared", () => {
  it("is asked once for a turn and by name, and again in the next, also after a failure", async () => {
    const asked: string[] = [];
    const ask = shareInTurn(
      async ({ name }: { name: string }) => {
        asked.push(name);
        if (asked.length === 3) throw new Error("on purpose");
        return asked.length;
      },
      ({ name }) => name,
    );
    expect(await Promise.all([ask({ name: "a" }), ask({ name: "b" }), ask({ name: "a" })])).toEqual(
      [1, 2, 1],
    );
    await expect(ask({ name: "a" })).rejects.toThrow("on purpose");
    const first = ask({ name: "a" });
    await nextTurn();
    // A later call does not join the first one, since it must see changes that were made since.
    expect(await Promise.all([first, ask({ name: "a" })])).toEqual([4, 5]);
  });
});
