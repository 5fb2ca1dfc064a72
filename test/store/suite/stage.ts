import { afterEach, beforeEach } from "vitest";
import type { StoreHandle } from "../../../src/store/types.ts";
import type { Home, TestClock } from "./make.ts";

/** The store under test: another one for each test. */
export interface Stage extends Pick<StoreHandle, "store" | "queue" | "usage" | "cluster"> {
  readonly home: Home;
  readonly clock: TestClock;
  readonly handle: StoreHandle;
  /** Opens the store again that the test has closed. */
  open(): Promise<void>;
  /** Closes the store and opens it again, as a gateway does that is restarted. */
  reopen(): Promise<void>;
}

/** Opens a store before each test of the surrounding `describe`, and removes it after the test. */
export function createStage(makeHome: () => Promise<Home>): Stage {
  let home: Home | undefined;
  let handle: StoreHandle | undefined;
  const get = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error("the store is open only inside a test");
    return value;
  };
  beforeEach(async () => {
    home = await makeHome();
    handle = await home.open();
  });
  afterEach(async () => {
    await handle?.store.close();
    await home?.remove();
    home = handle = undefined;
  });
  const open = async (): Promise<void> => {
    handle = await get(home).open();
  };
  return {
    open,
    get home() {
      return get(home);
    },
    get clock() {
      return get(home).clock;
    },
    get store() {
      return get(handle).store;
    },
    get queue() {
      return get(handle).queue;
    },
    get usage() {
      return get(handle).usage;
    },
    get cluster() {
      return get(handle).cluster;
    },
    get handle() {
      return get(handle);
    },
    async reopen() {
      await get(handle).store.close();
      await open();
    },
  };
}
