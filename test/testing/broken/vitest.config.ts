import { defineConfig } from "vitest/config";

/** Suites on implementations with one flaw each. `test/testing/flaws.test.ts` runs them in a process of their own, and expects them to fail. */
export default defineConfig({
  test: {
    // As in the config of all tests: Node takes the types away by itself.
    experimental: { viteModuleRunner: false },
    include: ["*.ts"],
    exclude: ["vitest.config.ts"],
    pool: "forks",
    execArgv: ["--conditions=rouse-source"],
    testTimeout: 30_000,
  },
});
