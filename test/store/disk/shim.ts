import { spawnSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";

const SOURCE = join(import.meta.dirname, "disk.c");
const HAS_COMPILER = process.platform === "linux" && spawnSync("cc", ["--version"]).status === 0;

/** Compiles the library that stands between a program and its disk; `disk.c` says what it can do. Returns its file. */
export function compileShim(): string {
  const file = join(mkdtempSync(join(tmpdir(), "rouse-shim-")), "disk.so");
  const { status, stderr } = spawnSync(
    "cc",
    ["-shared", "-fPIC", "-O1", "-Wall", "-o", file, SOURCE, "-ldl", "-lpthread"],
    {
      encoding: "utf8",
    },
  );
  if (status !== 0) throw new Error(`cc: ${stderr}`);
  return file;
}

/** Tests that need a C compiler. Without one they are left out, or fail where one is required. */
export function describeWithCompiler(name: string, tests: () => void): void {
  if (HAS_COMPILER) return void describe(name, tests);
  if (process.env["TEST_COMPILER_REQUIRED"] !== "1") {
    process.stderr.write(`No C compiler "cc" on Linux: left out is "${name}".\n`);
    return void describe.skip(name, tests);
  }
  describe(name, () => {
    it("finds a C compiler", () => {
      throw new Error('there is no C compiler "cc" on Linux');
    });
  });
}
