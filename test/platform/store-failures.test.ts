import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { RouseError } from "../../src/core/errors.ts";
import { SQLITE } from "../../src/store/sqlite/store-driver.ts";
import { platformWorld, type PlatformWorld } from "./world.ts";

/** The number of commits that the store will still reject. */
let refusals = 0;
/** The milliseconds by which the test's clock is ahead of the real one. */
let passed = 0;
let world: PlatformWorld;

/** Has the store of the next gateway refuse commits as a full disk does. */
function openBrittleStores(): void {
  const open = SQLITE.open.bind(SQLITE);
  vi.spyOn(SQLITE, "open").mockImplementation(async (options) => {
    const handle = await open(options);
    const { commit } = handle.store;
    handle.store.commit = (...args) => {
      if (refusals === 0) return commit(...args);
      refusals--;
      return Promise.reject(new RouseError({ code: "store_unavailable", message: "full" }));
    };
    return handle;
  });
}

beforeEach(async () => {
  [refusals, passed] = [0, 0];
  openBrittleStores();
  world = await platformWorld({
    // Each wait for a store that refuses takes a minute, at once.
    clock: {
      ...systemClock,
      now: () => systemClock.now() + passed,
      monotonic: () => performance.now() + passed,
      sleep(ms, signal) {
        if (refusals === 0) return systemClock.sleep(ms, signal);
        passed += 60_000;
        return systemClock.sleep(5, signal);
      },
    },
  });
});
afterEach(async () => {
  refusals = 0;
  await world.close();
  vi.restoreAllMocks();
});

/** The store refuses so many commits once the model is asked. */
const refuseAtTheEnd = (count: number): void => {
  world.model.says = () => {
    refusals = count;
    return { text: ["fine"] };
  };
};
const runs = async () => (await world.admin("/admin/v1/runs")).body.runs;
const TRY_AGAIN = {
  status: 503,
  body: { error: { message: "I cannot answer right now; my operator has been told." } },
};

it("a store that fails at a turn's first commit: the caller is to try again, and the record is kept once it can be", async () => {
  refusals = 1;
  expect(await world.chat()).toMatchObject(TRY_AGAIN);
  const [run] = await world.until(async () => ((await runs()).length > 0 ? runs() : undefined));
  expect(run).toMatchObject({
    kind: "api",
    status: "failed",
    error: { code: "store_unavailable" },
  });
});

it("a store that fails for a moment at a turn's end: the answer is given, and the model is asked once", async () => {
  refuseAtTheEnd(1);
  expect(await world.chat()).toMatchObject({ status: 200, content: "fine" });
  expect(world.model.asked).toHaveLength(1);
  expect(await runs()).toMatchObject([{ kind: "api", status: "succeeded" }]);
});

it("a store that fails for longer at a turn's end: the caller is to try again", async () => {
  refuseAtTheEnd(Infinity);
  expect(await world.chat()).toMatchObject(TRY_AGAIN);
  expect(world.model.asked).toHaveLength(1);
});
