import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { readableLine } from "../../src/cli/log.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const hasScript = spawnSync("script", ["--version"]).status === 0;

/** The lines that the logger writes to the standard error of a process: a terminal, or a pipe. */
function written(isTerminal: boolean, env: Record<string, string> = {}): string {
  const dir = mkdtempSync(join(tmpdir(), "rouse-log-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const file = join(dir, "log.ts");
  const url = join(ROOT, "src/cli/log.ts");
  writeFileSync(
    file,
    `import { createProgramLogger } from ${JSON.stringify(url)};
const log = createProgramLogger("info", process.env).child({ plugin: "acme" });
log.info({ path: "/hooks/shop", status: 401, note: "a b\\u001b[2J\\n" }, "a channel was lost");
log.error({ err: Object.assign(new TypeError("quotes the input"), { code: "E_X" }) }, "failed");
`,
  );
  const command = [process.execPath, "--no-warnings", file];
  const options = {
    encoding: "utf8" as const,
    env: { PATH: process.env["PATH"] ?? "", TERM: "xterm", ...env },
  };
  if (!isTerminal) return spawnSync(command[0] ?? "", command.slice(1), options).stderr;
  return spawnSync(
    "script",
    ["-qec", command.map((word) => `'${word}'`).join(" "), "/dev/null"],
    options,
  ).stdout.replaceAll("\r\n", "\n");
}

it("log: lines are JSON if standard error is no terminal", () => {
  const [first, second] = written(false)
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as object);
  expect(first).toMatchObject({
    level: "info",
    plugin: "acme",
    path: "/hooks/shop",
    msg: "a channel was lost",
  });
  expect(second).toMatchObject({ level: "error", err: { name: "TypeError", code: "E_X" } });
});

it.skipIf(!hasScript)(
  "log: a terminal gets one readable line for each entry, in colour unless NO_COLOR is set",
  () => {
    const plain = written(true, { NO_COLOR: "1" });
    const lines = plain.trim().split("\n");
    expect(lines).toHaveLength(2);
    expect(lines[0]).toMatch(
      /^\d\d:\d\d:\d\d info {2}a channel was lost {2}plugin=acme {2}path=\/hooks\/shop {2}status=401 {2}note="a b.*"$/,
    );
    expect(lines[1]).toMatch(
      /^\d\d:\d\d:\d\d error failed {2}TypeError E_X \(at .*\) {2}plugin=acme$/,
    );
    expect(plain).not.toContain("\u001b");
    expect(plain).not.toContain("quotes the input");
    const coloured = written(true);
    expect(coloured).toContain("\u001b[32minfo \u001b[0m");
    expect(coloured).not.toContain("\u001b[2J");
  },
);

it("log: the local time has 24 hours, and a line that is not JSON is shown unchanged", () => {
  const at = new Date(2026, 0, 2, 15, 4, 5).toISOString();
  expect(readableLine(JSON.stringify({ level: "warn", time: at, msg: "x" }), false)).toBe(
    "15:04:05 warn  x\n",
  );
  expect(readableLine("no json\n", false)).toBe("no json\n");
});
