import { expect, it } from "vitest";
import { parseAll } from "./code.ts";
import { findQuickTests } from "./quick-tests.ts";

it("quick tests: what starts a gateway, a process or a server is left out, also if another file imports it", () => {
  const files = parseAll({
    "src/gateway/gateway.ts": "",
    "src/index.ts": 'const load = () => import("./gateway/gateway.ts");',
    "src/core/ids.ts": "",
    "test/world.ts":
      'import { openGateway } from "../src/gateway/gateway.ts"; import { spawn } from "node:child_process";',
    "test/server.test.ts": 'import { createServer } from "node:http";',
    "test/process.ts": 'import { spawn } from "node:child_process";',
    "test/gateway.test.ts": 'import { world } from "./world.ts";',
    "test/library.test.ts": 'import { createGateway } from "rouse";',
    "test/process.test.ts": 'import { run } from "./process.ts";',
    "test/types.test.ts":
      'import type { World } from "./world.ts"; import { createId } from "../src/core/ids.ts";',
    "test/ids.test.ts": 'import { createId } from "../src/core/ids.ts";',
    "test/ids.soak.test.ts": 'import { createId } from "../src/core/ids.ts";',
  });
  expect(findQuickTests(files)).toEqual(["test/types.test.ts", "test/ids.test.ts"]);
});
