import { describe } from "vitest";
import { testAccept } from "./store/accept.ts";
import { testCluster } from "./store/cluster.ts";
import { testConfigs } from "./store/configs.ts";
import { testCommits } from "./store/commits.ts";
import { testLimits } from "./store/limits.ts";
import { testLists } from "./store/lists.ts";
import { testSums } from "./store/sums.ts";
import type { Home } from "./store/make.ts";
import { testQueueClock } from "./store/queue-clock.ts";
import { testQueueLeases } from "./store/queue-leases.ts";
import { testQueueKeys } from "./store/queue-keys.ts";
import { testQueueOrder } from "./store/queue-order.ts";
import { testRecords } from "./store/records.ts";
import { createStage } from "./store/stage.ts";
import { testSteps } from "./store/steps.ts";
import { testSweep } from "./store/sweep.ts";
import { testSweepClock } from "./store/sweep-clock.ts";
import { testStepSweep } from "./store/sweep-steps.ts";

export { createTestClock, type Home as StoreHome, type TestClock } from "./store/make.ts";

/** Declares the tests that every store passes, with its queue and its cluster. `makeHome` makes an empty place for one store. */
export function testStore(name: string, makeHome: () => Promise<Home>): void {
  describe(`store on ${name}`, () => {
    const stage = createStage(makeHome);
    testAccept(stage);
    testCommits(stage);
    testRecords(stage);
    testLists(stage);
    testSums(stage);
    testSweep(stage);
    testSweepClock(stage);
    testConfigs(stage);
    testSteps(stage);
    testStepSweep(stage);
  });
  describe(`queue on ${name}`, () => {
    const stage = createStage(makeHome);
    testQueueOrder(stage);
    testQueueKeys(stage);
    testQueueLeases(stage);
    testQueueClock(stage);
    testLimits(stage);
  });
  describe(`cluster on ${name}`, () => testCluster(createStage(makeHome)));
}
