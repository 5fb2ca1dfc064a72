import type { Job, JobKind } from "../../../src/store/types.ts";
import { job } from "./make.ts";
import type { Stage } from "./stage.ts";

/** Returns what tests of a queue do with the store under test. */
export function createQueueActions(stage: Stage) {
  const ids = (jobs: readonly Job[]): string[] => jobs.map((one) => one.id);
  const fetch = (limit = 10, kind: JobKind = "turn"): Promise<Job[]> =>
    stage.queue.fetch(kind, limit);
  const fetchOne = async (): Promise<Job> => {
    const [found] = await fetch(1);
    if (!found) throw new Error("no job is ready");
    return found;
  };
  const enqueue = (...jobs: Parameters<typeof job>[]): Promise<boolean> =>
    stage.store.commit((tx) => {
      for (const args of jobs) tx.jobs.add(job(...args));
    });
  const complete = (one: Job): Promise<boolean> =>
    stage.store.commit((tx) => tx.jobs.settle(one), one);
  return { ids, fetch, fetchOne, enqueue, complete };
}
