#!/usr/bin/env node
// Plain JavaScript of any age: it must be able to say that Node is too old.
import { existsSync } from "node:fs";
import module, { createRequire } from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { spawn, spawnSync } from "node:child_process";

const [major = 0] = process.versions.node.split(".").map(Number);
if (major < 24) {
  const { node } = process.versions;
  let found = "";
  // With `npx rouse`, npm fetches Node as it fetched Rouse. A service downloads nothing at its start.
  if (process.env.npm_command === "exec") {
    console.error(
      `rouse: needs Node 24, this is ${node}: npx looks for one. \`npm i node@24\` in this folder makes the next start faster.`,
    );
    const { stdout } = spawnSync(
      "npx",
      ["--yes", "--package=node@24", "node", "-p", "process.execPath"],
      {
        encoding: "utf8",
        stdio: ["ignore", "pipe", "inherit"],
        shell: process.platform === "win32",
      },
    );
    found = stdout?.trim() ?? "";
  }
  if (!existsSync(found)) {
    console.error(
      `rouse: needs Node 24 or newer, this is ${node}. In a project folder, \`npm i node@24\` is enough.`,
    );
    process.exit(1);
  }
  const child = spawn(found, process.argv.slice(1), { stdio: "inherit" });
  // The terminal sends SIGINT to both.
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  process.exit(await new Promise((end) => child.on("exit", (code) => end(code ?? 1))));
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
