/**
 * Checks what one has changed, while one works: types, formats, lint, the structure of the code and the tests that start no gateway,
 * process, server or browser. Prints the times, and the output of what failed. Ends with 1 if something failed.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { ROOT } from "../test/structure/code.ts";
import { readProject } from "../test/structure/gates.ts";
import { findQuickTests } from "../test/structure/quick-tests.ts";

let failed = 0;
const secondsSince = (start: number): string =>
  `${((performance.now() - start) / 1000).toFixed(1)} s`;

/** Runs a script of the project, and prints how long it took; its output only if it failed. */
async function check(name: string, script: string, ...args: string[]): Promise<void> {
  const start = performance.now();
  const child = spawn("npm", ["run", "-s", script, "--", ...args], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exit = once(child, "close");
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = (await exit) as [number | null];
  console.log(`${code === 0 ? "✓" : "✗"} ${name} (${secondsSince(start)})`);
  if (code === 0) return;
  failed++;
  console.log(out + err);
}

async function checkCode(): Promise<void> {
  await check("format", "format:check");
  await check("types", "typecheck");
  await check("lint", "lint");
  await check("generated parts of the pages", "docs", "--check");
}

async function checkTests(): Promise<void> {
  const files = findQuickTests(readProject());
  await check(
    `structure, and ${files.length} files of quick tests`,
    "test",
    "--reporter=minimal",
    "test/structure",
    ...files,
  );
}

const start = performance.now();
// Two at a time, for two cores.
await Promise.all([checkTests(), checkCode()]);
console.log(`${failed} failed (${secondsSince(start)})`);
process.exitCode = failed === 0 ? 0 : 1;
