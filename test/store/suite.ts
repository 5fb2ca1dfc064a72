import { describe } from "vitest";
import { testAccept } from "./suite/accept.ts";
import { testCluster } from "./suite/cluster.ts";
import { testConfigs } from "./suite/configs.ts";
import { testCommits } from "./suite/commits.ts";
import { testLimits } from "./suite/limits.ts";
import { testLists } from "./suite/lists.ts";
import { testSums } from "./suite/sums.ts";
import type { Home } from "./suite/make.ts";
import { testQueueClock } from "./suite/queue-clock.ts";
import { testQueueLeases } from "./suite/queue-leases.ts";
import { testQueueKeys } from "./suite/queue-keys.ts";
import { testQueueOrder } from "./suite/queue-order.ts";
import { testRecords } from "./suite/records.ts";
import { createStage } from "./suite/stage.ts";
import { testSteps } from "./suite/steps.ts";
import { testSweep } from "./suite/sweep.ts";
import { testSweepClock } from "./suite/sweep-clock.ts";
import { testStepSweep } from "./suite/sweep-steps.ts";

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
