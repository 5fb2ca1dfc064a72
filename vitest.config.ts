import { availableParallelism } from "node:os";
import { configDefaults, defineConfig } from "vitest/config";

const shared = {
  // Waiting is patient, so that a loaded machine fails no test that would pass: how fast something is, the benchmarks measure.
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 60_000 } },
  setupFiles: "test/patience.ts",
  pool: "forks" as const,
  // Many threads that compile and end at the same time now and then kill a process of Node 24 on processors with protection keys
  // (`Check failed: jit_page.has_value()`, nodejs/node#64500): its tests would fail for it.
  execArgv: ["--conditions=rouse-source", "--no-memory-protection-keys"],
};
/** Long loads, loops of crashes, floods, and the installed package: `npm run test:soak`. */
const SOAKS = "test/**/*.soak.test.ts";

export default defineConfig({
  test: {
    globalSetup: "test/setup.ts",
    // Node runs the files as Rouse does: it takes the types away by itself, a sixth less work than another module loader.
    experimental: { viteModuleRunner: false },
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
          // Half of a test is waiting: for processes, pages and timers. With three times as many as cores it takes as long, and short limits
          // of time are exceeded.
          maxWorkers: Math.min(availableParallelism() * 2, availableParallelism() + 4),
        },
      },
      // They wait most of the time: for leases that end, and for processes that start.
      { extends: true, test: { ...shared, name: "soak", include: [SOAKS], maxWorkers: 3 } },
    ],
  },
});
