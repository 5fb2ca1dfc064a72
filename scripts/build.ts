/** Builds the package: JavaScript and types in dist/, from the TypeScript that a clone runs as it is. */
import { spawnSync } from "node:child_process";
import { cpSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
const { status } = spawnSync("tsc", ["-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
// What the browser gets is not compiled.
cpSync(
  new URL("../src/http/console", import.meta.url),
  new URL("../dist/src/http/console", import.meta.url),
  {
    recursive: true,
    filter: (source) => !source.endsWith(".ts"),
  },
);
const built = spawnSync("vite", ["build", "console", "--logLevel", "warn"], {
  cwd: root,
  stdio: "inherit",
});
process.exitCode = status || built.status || 0;
if (status === null || built.status === null) process.exitCode = 1;
