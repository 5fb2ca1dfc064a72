import { expect, it } from "vitest";
import { backOff, withJitter } from "../../src/core/backoff.ts";
import { lazy } from "../../src/core/lazy.ts";

it("backoff: each wait is twice as long as the one before, within the bounds", () => {
  expect([1, 2, 3, 6, 7, 5000].map((failures) => backOff(failures))).toEqual([
    1000, 2000, 4000, 32_000, 60_000, 60_000,
  ]);
  expect([1, 2, 9].map((failures) => backOff(failures, { firstMs: 5, longestMs: 100 }))).toEqual([
    5, 10, 100,
  ]);
  expect([0, 0.5, 1].map((at) => withJitter(400, () => at))).toEqual([300, 400, 500]);
});

it("lazy parts: a part is made once, and again after an error; a failure of an older attempt keeps the newer part", async () => {
  const attempts: PromiseWithResolvers<number>[] = [];
  const part = lazy(() => {
    attempts.push(Promise.withResolvers<number>());
    return attempts.at(-1)!.promise;
  });
  expect(part.current()).toBeUndefined();
  const first = Promise.allSettled([part(), part()]);
  attempts[0]!.reject(new Error("away"));
  expect((await first).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(part.current()).toBeUndefined();
  const old = part();
  part.reset();
  const newer = part();
  attempts[1]!.reject(new Error("late"));
  await expect(old).rejects.toThrow("late");
  attempts[2]!.resolve(7);
  expect([await newer, await part(), attempts.length]).toEqual([7, 7, 3]);
});
