#!/usr/bin/env node
// Plain JavaScript of any age: it must be able to say that Node is too old.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { spawnSync } from "node:child_process";

const [major = 0] = process.versions.node.split(".").map(Number);
if (major < 24) {
  console.error(`rouse: needs Node 24 or newer, this is ${process.versions.node}. In a project folder, \`npm i node@24\` is enough.`);
  process.exit(1);
}
const source = fileURLToPath(new URL("../src/cli/main.ts", import.meta.url));
if (existsSync(source)) {
  // A clone: the TypeScript runs as it is, with the condition under which `#plugin` means a source file.
  const inherited = process.execArgv.includes("--conditions=rouse-source");
  if (inherited) await import(source);
  else {
    const { execve } = createRequire(import.meta.url)("node:process");
    const args = [process.execPath, "--conditions=rouse-source", "--disable-warning=ExperimentalWarning", ...process.argv.slice(1)];
    if (execve && process.platform !== "win32") execve(process.execPath, args, process.env);
    else process.exit(spawnSync(args[0], args.slice(1), { stdio: "inherit" }).status ?? 1);
  }
} else {
  await import("../dist/src/cli/main.js");
}
