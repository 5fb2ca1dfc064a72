#!/usr/bin/env node
// Plain JavaScript of any age: it must be able to say that Node is too old.
import { existsSync } from "node:fs";
import module, { createRequire } from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { spawnSync } from "node:child_process";

const [major = 0] = process.versions.node.split(".").map(Number);
if (major < 24) {
  console.error(
    `rouse: needs Node 24 or newer, this is ${process.versions.node}. In a project folder, \`npm i node@24\` is enough.`,
  );
  process.exit(1);
}
/**
 * Compiled code, and TypeScript without its types, is kept between starts in the user's cache folder: half the time to
 * start and a fifth less memory. Not in the shared temporary folder, where somebody else could put code. Node's own
 * NODE_COMPILE_CACHE and NODE_DISABLE_COMPILE_CACHE go first; a folder that cannot be written is no error.
 */
function keepCompiled() {
  if (process.env.NODE_COMPILE_CACHE !== undefined) return;
  try {
    const folder = join(
      process.env.XDG_CACHE_HOME || join(homedir(), ".cache"),
      "rouse",
      "compiled",
    );
    // `rouse test` leaves no file behind, so it makes no cache.
    if (process.argv[2] === "test" && !existsSync(folder)) return;
    module.enableCompileCache(folder);
  } catch {
    // A user without a home folder: it starts all the same, only slower.
  }
}

const source = fileURLToPath(new URL("../src/cli/main.ts", import.meta.url));
if (existsSync(source)) {
  // A clone: the TypeScript runs as it is, with the condition under which `#plugin` means a source file.
  const inherited = process.execArgv.includes("--conditions=rouse-source");
  if (inherited) {
    keepCompiled();
    await import(source);
  } else {
    const { execve } = createRequire(import.meta.url)("node:process");
    const args = [
      process.execPath,
      "--conditions=rouse-source",
      "--disable-warning=ExperimentalWarning",
      ...process.argv.slice(1),
    ];
    if (execve && process.platform !== "win32") execve(process.execPath, args, process.env);
    else process.exit(spawnSync(args[0], args.slice(1), { stdio: "inherit" }).status ?? 1);
  }
} else {
  keepCompiled();
  await import("../dist/src/cli/main.js");
}
