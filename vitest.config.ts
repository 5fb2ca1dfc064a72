import { defineConfig } from "vitest/config";

const shared = { testTimeout: 30_000, hookTimeout: 30_000, pool: "forks" as const, execArgv: ["--conditions=rouse-source"] };
/** Tests of how long something takes: after all others, so that these are not what they measure. */
const TIMED = ["test/e2e/isolation.test.ts"];

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
          name: "all",
          include: ["test/**/*.test.ts", "transforms/**/*.test.ts"],
          exclude: [...TIMED, "**/node_modules/**"],
          sequence: { groupOrder: 0 },
        },
      },
      { extends: true, test: { ...shared, name: "timed", include: TIMED, sequence: { groupOrder: 1 } } },
    ],
  },
});
