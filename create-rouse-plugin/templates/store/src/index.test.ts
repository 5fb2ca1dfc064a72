import { createLogger } from "rouse/store-kit";
import { createTestClock, testStore } from "rouse/testing";
import plugin from "./index.ts";

let opened = 0;

testStore("acme", async () => {
  const { store } = plugin;
  if (!store) throw new Error("the plugin has no store");
  const clock = createTestClock();
  // Each test has a place of its own, which it can leave and open again.
  const url = `acme:test-${++opened}`;
  return {
    clock,
    open: () => store.open({ url, clock, log: createLogger("silent") }),
    remove: async () => undefined,
  };
});
