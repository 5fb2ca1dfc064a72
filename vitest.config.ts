import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { conditions: ["rouse-source"] },
  ssr: { resolve: { conditions: ["rouse-source", "node", "import", "default"], externalConditions: ["rouse-source", "node", "import"] } },
  test: {
    include: ["test/**/*.test.ts", "transforms/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    pool: "forks",
    execArgv: ["--conditions=rouse-source"],
  },
});
