import { execFile } from "node:child_process";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { scale } from "../soak.ts";
import { userFolder } from "./support.ts";

const RELOADS = scale(600, 2000);
/** Reloads before the first count: caches are filled then. */
const FIRST = 50;
/** A version that stays takes 34 KB and more (ADR 13). */
const MOST_LEFT = RELOADS * 10_000;

const helpers = (name: string, count: number): string =>
  Array.from(
    { length: count },
    (_, n) =>
      `/** Cuts a text, or fills it. */\nexport function ${name}${n}(value: string, length: number): string {\n  if (value.length > length) return value.slice(0, length);\n  return value.padEnd(length, "${n}");\n}\n`,
  ).join("");

const PLUGIN = `import { z } from "zod";
import { definePlugin } from "rouse/plugin";
import { prefix } from "./prefix.ts";
import { format0 } from "./format.ts";
enum Kind { reply = "reply" }
${helpers("own", 7)}
export default definePlugin({
  id: "acme",
  config: z.strictObject({ token: z.string().min(8), apiUrl: z.url().default("https://api.acme.example") }),
  channel: ({ config }) => ({ limit: 4000, defaultTo: prefix, send: async () => ({ status: "sent" as const, messageIds: [format0(Kind.reply + config.token, 9)] }) }),
  tools: () => [{ name: "look", description: "Looks.", input: z.object({ what: z.string() }), execute: async () => prefix }],
});`;

/** Reloads a gateway whenever a file of its plugin has changed, and counts what is there before and after. */
const SCRIPT = `
import { createRequire, registerHooks } from "node:module";
import { writeFileSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
const [root, reloads, first] = process.argv.slice(2);
const { createGateway } = await import(root + "/src/index.ts");
const require = createRequire(import.meta.url);
const count = async (name) => {
  // What nothing refers to any more is cleared in turns of the event loop of their own.
  for (let n = 0; n < 5; n++) { await setTimeout(20); gc(); }
  let depth = 0;
  const hooks = registerHooks({ load(url, context, next) { depth = new Error("here").stack.split("\\n").length; return next(url, context); } });
  Error.stackTraceLimit = Infinity;
  writeFileSync(import.meta.dirname + "/" + name + ".cjs", "");
  require("./" + name + ".cjs");
  hooks.deregister();
  const { heapUsed, external } = process.memoryUsage();
  const listeners = process.eventNames().reduce((sum, event) => sum + process.listenerCount(event), 0);
  return { bytes: heapUsed + external, counts: { depth, listeners } };
};
const gateway = await createGateway({ cwd: import.meta.dirname, stateDir: import.meta.dirname + "/.rouse", env: {} });
await gateway.start({ listen: false, watch: true });
let before;
const hashes = new Set();
for (let n = 1; n <= reloads; n++) {
  writeFileSync(import.meta.dirname + "/plugins/acme/prefix.ts", "export const prefix: string = " + JSON.stringify("version " + String(n).padStart(6, "0")) + ";" + " ".repeat(n % 2));
  const { ok, hash } = await gateway.reload();
  if (ok) hashes.add(hash);
  if (n === Number(first)) before = await count("before");
}
console.log(JSON.stringify({ versions: hashes.size, before, after: await count("after") }));
await gateway.stop();
`;

interface Counted {
  bytes: number;
  counts: Record<string, number>;
}

it(
  `reload: ${RELOADS} versions of a TypeScript plugin leave less than ${MOST_LEFT / 1e6} MB, no hook and no listener`,
  { timeout: 600_000 },
  async () => {
    const { dir } = userFolder({
      "plugins/acme/index.ts": PLUGIN,
      "plugins/acme/prefix.ts": 'export const prefix: string = "first";',
      "plugins/acme/format.ts": helpers("format", 3),
      "rouse.json5": '{ channels: { acme: { token: "secret-token" } } }',
      "run.mjs": SCRIPT,
    });
    const args = [
      "--expose-gc",
      "--conditions=rouse-source",
      join(dir, "run.mjs"),
      resolve(import.meta.dirname, "../.."),
      `${RELOADS}`,
      `${FIRST}`,
    ];
    const { stdout } = await promisify(execFile)(process.execPath, args);
    const { versions, before, after } = JSON.parse(stdout) as { versions: number } & Record<
      "before" | "after",
      Counted
    >;
    expect(versions).toBe(RELOADS);
    expect(after.bytes - before.bytes).toBeLessThan(MOST_LEFT);
    expect(after.counts["listeners"]).toBe(before.counts["listeners"]);
    // The way of an import differs by a few calls; each hook that is left behind adds one for every reload.
    expect(Math.abs(Number(after.counts["depth"]) - Number(before.counts["depth"]))).toBeLessThan(
      10,
    );
  },
);
