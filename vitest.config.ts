import { availableParallelism } from "node:os";
import { configDefaults, defineConfig } from "vitest/config";

const shared = {
  // Waiting is patient, so that a loaded machine fails no test that would pass: how fast something is, soaks measure.
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 60_000 } },
  setupFiles: "test/patience.ts",
  pool: "forks" as const,
  // Many threads that compile and end at the same time now and then kill a process of Node 24 on processors with protection keys
  // (`Check failed: jit_page.has_value()`, nodejs/node#64500): its tests would fail for it.
  execArgv: ["--conditions=rouse-source", "--no-memory-protection-keys"],
};
/** Long loads, loops of crashes, floods, and tests of how long something takes: `npm run test:soak`. */
const SOAKS = "test/**/*.soak.test.ts";
/** Soaks that count what happened, and compare no time: two at once take little more time than one. */
const COUNTING_SOAKS = [
  "agent/mcp",
  "channels/replies",
  "e2e/{crash,docs-site,office,waiting-crash}",
  "faults/faults",
  "plugin/reload",
  "runs/{approval-crash,crash}",
  "store/{crash,lease-outage}",
  "store/disk/{power-loss,power-loss-work}",
].map((name) => `test/${name}.soak.test.ts`);

export default defineConfig({
  resolve: { conditions: ["rouse-source"] },
  ssr: { resolve: { conditions: ["rouse-source", "node"], externalConditions: ["rouse-source", "node"] } },
  test: {
    globalSetup: "test/setup.ts",
    projects: [
      {
        extends: true,
        test: {
          ...shared,
          name: "tests",
          include: ["test/**/*.test.ts", "transforms/**/*.test.ts"],
          exclude: [SOAKS, ...configDefaults.exclude],
          // A process runs many files: starting one for each takes a quarter of the time of small tests.
          isolate: false,
          // Most of a test's time is waiting: on two cores two workers would leave one idle.
          maxWorkers: availableParallelism() + 1,
        },
      },
      { extends: true, test: { ...shared, name: "soak", include: COUNTING_SOAKS, maxWorkers: 2, sequence: { groupOrder: 1 } } },
      // One after the other: what they measure must not depend on what runs beside.
      {
        extends: true,
        test: {
          ...shared,
          name: "soak-timed",
          include: [SOAKS],
          exclude: [...COUNTING_SOAKS, ...configDefaults.exclude],
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
