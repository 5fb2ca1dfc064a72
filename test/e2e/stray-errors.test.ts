import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { isOwnError } from "../../src/cli/gateway/start.ts";
import { createProcessWorld, until, type ProcessWorld } from "./process-world.ts";

let world: ProcessWorld | undefined;
afterEach(() => world?.close());

/** A plugin that forgets a promise, as a client of a vendor does whose connection breaks. */
const STRAY = `import { definePlugin } from "rouse/plugin";
const forget = async () => {
  await new Promise((resolve) => setTimeout(resolve, 50));
  throw new TypeError("a secret of the vendor");
};
export default definePlugin({
  id: "stray",
  setup() {
    void forget();
    return {};
  },
});
`;

it("an error that a plugin does not handle: the log names the file, and the gateway continues", async () => {
  world = await createProcessWorld({ plugins: { settings: { stray: {} } } });
  mkdirSync(join(world.dir, "plugins"));
  writeFileSync(join(world.dir, "plugins/stray.ts"), STRAY);
  const gateway = await world.start([], { ROUSE_LOG_LEVEL: "error" });
  await until(() => gateway.output().includes("did not handle an error"));
  expect(gateway.output()).toMatch(/"name":"TypeError".*stray\.ts/);
  expect(gateway.output()).not.toContain("a secret of the vendor");
  expect((await gateway.post("wake", { text: "still there" })).status).toBe(200);
});

it.each([
  [true, ["at read (SRC/store/a.ts:1:2)", "at open (plugins/a.js:1:2)"]],
  [true, ["at Parser.parse (/x/node_modules/pg/a.js:1:2)", "at async sweep (SRC/store/a.ts:1:2)"]],
  [true, ["at listOnTimeout (node:internal/timers:1:2)", "at run (SRC/turns/a.ts:1:2)"]],
  [false, ["at Socket.end (/x/plugins/a.js:1:2)", "at start (SRC/plugin/services.ts:1:2)"]],
  [false, ["at fetch (node:internal/deps/undici:1:2)", "at async poll (/x/plugins/a.js:1:2)"]],
  [false, []],
])("an unhandled error is the gateway's own: %s for %j", (isOwn, frames) => {
  const error = new Error("x");
  const source = new URL("../../src", import.meta.url).href;
  error.stack = ["Error: x", ...frames.map((frame) => `    ${frame.replace("SRC", source)}`)].join(
    "\n",
  );
  expect(isOwnError(error)).toBe(isOwn);
});
