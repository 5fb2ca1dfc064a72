/** The rooms that take a hook to its delivery, in a folder that has nothing else of Rouse. */
import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ROOT } from "./code.ts";
import { readProject } from "./gates.ts";
import { getPart, importGraph, OPTIONAL_ROOMS, reachable } from "./imports.ts";

const run = promisify(execFile);
const LEFT_OUT = [...OPTIONAL_ROOMS, "gateway", "index.ts"];
const isCore = (path: string): boolean =>
  path.startsWith("src/") && !LEFT_OUT.includes(getPart(path));

/** The folders of tests of these rooms. Of other tests many start the program, which has all rooms. */
const FOLDERS = ["agent", "approvals", "delivery", "limits", "mapping", "runs", "schedules"];

const graph = importGraph(readProject());
const closures = [...graph.keys()]
  .filter((path) => path.endsWith(".test.ts") && !path.includes(".soak."))
  .filter((path) => path.startsWith("test/") && FOLDERS.includes(getPart(path)))
  .map((path) => ({ path, needs: [...reachable(graph, path)] }))
  .filter(({ needs }) => needs.some(isCore))
  .filter(({ needs }) => needs.every((path) => isCore(path) || path.startsWith("test/")));
const tests = closures.map(({ path }) => path);

let dir: string;
const write = (name: string, value: object): void =>
  writeFileSync(join(dir, name), JSON.stringify(value));
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-core-"));
  symlinkSync(join(ROOT, "node_modules"), join(dir, "node_modules"));
  for (const path of ["package.json", "mappings", "test/fixtures"])
    cpSync(join(ROOT, path), join(dir, path), { recursive: true });
  for (const path of [...graph.keys()].filter(isCore)) cpSync(join(ROOT, path), join(dir, path));
  for (const path of new Set([...tests, ...closures.flatMap(({ needs }) => needs)]))
    cpSync(join(ROOT, path), join(dir, path));
  cpSync(join(ROOT, "tsconfig.json"), join(dir, "tsconfig.base.json"));
  write("tsconfig.json", { extends: "./tsconfig.base.json", include: ["src", ...tests] });
});
afterAll(() => rmSync(dir, { recursive: true }));

it("compile", { timeout: 900_000 }, async () => {
  await run(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", dir]);
});

it("pass their tests", { timeout: 900_000 }, async () => {
  expect(tests.length).toBeGreaterThan(25);
  const { stdout } = await run(
    process.execPath,
    [
      join(ROOT, "node_modules/vitest/vitest.mjs"),
      "run",
      "--root",
      dir,
      "--no-isolate",
      "--experimental.viteModuleRunner=false",
      "--testTimeout=120000",
    ],
    { env: { ...process.env, NODE_OPTIONS: "--conditions=rouse-source", NO_COLOR: "1" } },
  );
  expect(stdout).toContain(`${tests.length} passed`);
});
