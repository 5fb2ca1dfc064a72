import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runCi } from "../../scripts/ci.ts";
import { ROOT } from "../structure/code.ts";

const NEVER = `it("always fails", () => expect(1).toBe(2));`;
const GOOD = `it("one", () => {}); it("two", () => {});`;
/** Counts its runs in a file, and does something in the first one only. */
const first = (name: string, what: string): string => `
  import { appendFileSync, readFileSync } from "node:fs";
  appendFileSync("${name}.log", "x");
  const isFirst = readFileSync("${name}.log", "utf8") === "x";
  ${what}`;

describe(".ci/run", () => {
  let cwd: string;
  beforeEach(() => {
    cwd = mkdtempSync(join(tmpdir(), "rouse-ci-test-"));
    mkdirSync(join(cwd, "test"));
  });
  afterEach(() => rmSync(cwd, { recursive: true, force: true }));

  async function ci(
    tests: Record<string, string>,
    checks: Record<string, readonly [string, ...string[]]> = {},
    flags: readonly string[] = [],
  ) {
    for (const [name, text] of Object.entries(tests))
      writeFileSync(join(cwd, "test", `${name}.test.ts`), text);
    let output = "";
    const vitest = [
      "node",
      join(ROOT, "node_modules/vitest/vitest.mjs"),
      "run",
      "--globals",
      "--passWithNoTests",
      ...flags,
    ] as const;
    const code = await runCi({
      suites: { tests: vitest },
      checks,
      cwd,
      write: (text) => (output += text),
    });
    return { code, output, lastLine: output.trimEnd().split("\n").at(-1) };
  }
  const countRuns = (name: string): number => readFileSync(join(cwd, `${name}.log`), "utf8").length;

  it("names a file as unsteady that fails once and passes alone, and counts it as passed", async () => {
    const { code, output, lastLine } = await ci({
      good: GOOD,
      half: first(
        "half",
        `it("stays", () => {}); it("fails the first time", () => expect(isFirst ? "first" : "").toBe(""));`,
      ),
      late: first(
        "late",
        `it("throws outside", async () => {
          if (isFirst) setTimeout(() => { throw new Error("too late"); });
          await new Promise((resolve) => setTimeout(resolve, 50));
        });`,
      ),
    });
    expect(lastLine).toBe("5 passed, 0 failed");
    expect(code).toBe(0);
    const list = output.slice(output.indexOf("unsteady:"));
    expect(list).toContain("test/half.test.ts\n    fails the first time");
    expect(list).toContain("expected 'first' to be ''");
    expect(list).toContain("test/late.test.ts\n    An error outside the tests:");
    expect(list).toContain("too late");
    expect(list).not.toContain("test/good.test.ts");
  });

  it("fails for a file that fails again, and for a check", async () => {
    const { code, output, lastLine } = await ci(
      { good: GOOD, never: first("never", NEVER) },
      { lint: ["false"], types: ["true"] },
    );
    expect(lastLine).toBe("3 passed, 2 failed");
    expect(code).toBe(1);
    expect(output).toContain("✗ test/never.test.ts\n    always fails");
    expect(output).toContain("✗ lint");
    expect(output).not.toContain("unsteady:");
    expect(countRuns("never")).toBe(2);
  });

  it("does not run thirteen failed files again", async () => {
    const names = Array.from({ length: 13 }, (_, at) => `half${at}`);
    const { code, lastLine } = await ci(
      Object.fromEntries(
        names.map((name) => [
          name,
          first(name, `it("fails the first time", () => expect(isFirst).toBe(false));`),
        ]),
      ),
      {},
      ["--no-isolate", "--maxWorkers=1"],
    );
    expect(lastLine).toBe("0 passed, 13 failed");
    expect(code).toBe(1);
    expect(names.map(countRuns)).toEqual(names.map(() => 1));
  });

  it("fails if no test ran, and if a process ends in the middle", async () => {
    expect(await ci({})).toMatchObject({ code: 1, lastLine: "0 passed, 1 failed" });
    const { code, lastLine } = await ci({
      gone: `it("ends the process", () => process.kill(process.pid, "SIGKILL"));`,
      good: GOOD,
    });
    expect(code).toBe(1);
    expect(lastLine).toMatch(/^2 passed, [1-9] failed$/);
  });
});
