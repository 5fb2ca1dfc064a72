import { defineConfig } from "vitest/config";

/** Suites on implementations with one flaw each. `test/testing/flaws.test.ts` runs them in a process of their own, and expects them to fail. */
export default defineConfig({
  resolve: { conditions: ["rouse-source"] },
  ssr: {
    resolve: { conditions: ["rouse-source", "node"], externalConditions: ["rouse-source", "node"] },
  },
  test: {
    include: ["*.ts"],
    exclude: ["vitest.config.ts"],
    pool: "forks",
    execArgv: ["--conditions=rouse-source"],
    testTimeout: 30_000,
  },
});
