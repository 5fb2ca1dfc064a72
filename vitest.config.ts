import { availableParallelism } from "node:os";
import { configDefaults, defineConfig } from "vitest/config";

const shared = {
  // Waiting is patient, so that a loaded machine fails no test that would pass: how fast something is, soaks measure.
  testTimeout: 60_000,
  hookTimeout: 60_000,
  expect: { poll: { timeout: 30_000 } },
  setupFiles: "test/patience.ts",
  pool: "forks" as const,
  execArgv: ["--conditions=rouse-source"],
};
/** Long loads, loops of crashes, floods, and tests of how long something takes: `npm run test:soak`. */
const SOAKS = "test/**/*.soak.test.ts";

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
      // One after the other: what they measure and count must not depend on what runs beside.
      { extends: true, test: { ...shared, name: "soak", include: [SOAKS], maxWorkers: 1 } },
    ],
  },
});
