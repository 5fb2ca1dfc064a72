import { describe, expect, it } from "vitest";
import { reportError } from "../../src/cli/failure.ts";
import type { CliIo } from "../../src/cli/io.ts";
import { ownOptions, pairs } from "../../src/cli/options.ts";
import { printTable } from "../../src/cli/print.ts";
import { createProgress } from "../../src/cli/progress.ts";
import {
  renderDuration,
  bytes,
  cell,
  fit,
  printable,
  shellWord,
  shortTime,
  width,
} from "../../src/cli/text.ts";
import { RouseError } from "../../src/core/errors.ts";

function fakeIo(
  terminal: Partial<CliIo["terminal"]> = {},
): CliIo & { written: { out: string; err: string } } {
  const written = { out: "", err: "" };
  return {
    written,
    out: (text) => void (written.out += text),
    err: (text) => void (written.err += text),
    env: {},
    cwd: "/",
    terminal: { in: false, out: false, err: false, columns: undefined, ...terminal },
    now: () => Date.now(),
    exitCode: 0,
  };
}

describe("text of unknown origin", () => {
  it("cannot steer the terminal", () => {
    expect(printable("a\u001b[2Jb\u009b1mc\u0007\u202ed\r\nnext\ttab\rend")).toBe(
      "a[2Jb1mcd\nnext\ttab\nend",
    );
    expect(cell("a\nb\u001b]0;title\u0007c")).not.toMatch(/[^\u0020-\u007e]/);
  });

  it("cannot break out of a line to paste", () => {
    expect(shellWord("main/hook/hook:a-1")).toBe("main/hook/hook:a-1");
    expect(shellWord("a'; rm -rf ~ #")).toBe(`'a'\\''; rm -rf ~ #'`);
    expect(shellWord("$(date)")).toBe("'$(date)'");
  });

  it("is measured in columns and cut between characters", () => {
    expect([width("abc"), width("日本"), width("é"), width("🚀")]).toEqual([3, 4, 1, 2]);
    expect(fit("日本語", 5)).toBe("日本…");
    expect(fit("🚀🚀🚀", 4)).toBe("🚀…");
    expect(fit("short", 5)).toBe("short");
  });
});

describe("times", () => {
  const now = new Date(2026, 4, 31, 12, 0, 0).getTime();
  it("are local and short", () => {
    expect(shortTime(new Date(2026, 4, 31, 8, 3, 9).toISOString(), now)).toBe("08:03:09");
    expect(shortTime(new Date(2026, 4, 30, 8, 3).toISOString(), now)).toBe("May 30 08:03");
    expect(shortTime(new Date(2025, 11, 1).toISOString(), now)).toBe("2025-12-01");
    expect(shortTime(null, now)).toBe("–");
  });

  it("have the unit that fits", () => {
    const took = (seconds: number): string =>
      renderDuration(
        "2026-01-01T00:00:00Z",
        new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString(),
      );
    expect([took(1.24), took(59), took(300), took(9000)]).toEqual([
      "1.2 s",
      "59 s",
      "5 min",
      "3 h",
    ]);
    expect([bytes(999), bytes(12_345), bytes(2_500_000)]).toEqual(["999 B", "12.3 kB", "2.5 MB"]);
  });
});

describe("tables", () => {
  it("are aligned, also with wide characters", () => {
    const io = fakeIo();
    printTable(
      io,
      ["A", "B", "C"],
      [
        ["日本", "x", "1"],
        ["a", "yyy", ""],
      ],
    );
    expect(io.written.out).toBe("A     B    C\n日本  x    1\na     yyy\n");
  });

  it("cut the last column on a terminal only", () => {
    const long = "x".repeat(200);
    const [terminal, pipe] = [fakeIo({ columns: 60 }), fakeIo()];
    for (const io of [terminal, pipe]) printTable(io, ["ID", "REASON"], [["run_1", long]]);
    expect(terminal.written.out.split("\n")[1]).toHaveLength(60);
    expect(pipe.written.out).toContain(long);
  });
});

describe("progress", () => {
  it("is drawn on a terminal and nowhere else", () => {
    const [terminal, pipe] = [fakeIo({ err: true }), fakeIo()];
    for (const io of [terminal, pipe]) {
      const progress = createProgress(io, "replaying", 4);
      progress.update(2);
      progress.end();
    }
    expect(pipe.written).toEqual({ out: "", err: "" });
    expect(terminal.written.err).toContain("replaying [############............] 2/4");
    expect(terminal.written.err.endsWith("\r\u001b[K")).toBe(true);
  });
});

describe("errors", () => {
  it("print message and issues, each with its path, and choose the exit code", () => {
    const io = fakeIo();
    const error = new RouseError({
      code: "config_invalid",
      message: "the config has problems",
      issues: [{ path: "hooks.path", message: "must not be /" }],
    });
    expect(reportError(error, io, false)).toBe(3);
    expect(io.written.err).toBe("rouse: the config has problems\n  hooks.path: must not be /\n");
    expect(reportError(new RouseError({ code: "usage", message: "x" }), io, false)).toBe(2);
    expect(reportError(new RouseError({ code: "not_found", message: "x" }), io, false)).toBe(1);
  });

  it("never quote a foreign message, and show the stack only when asked", () => {
    const io = fakeIo();
    const foreign = new SyntaxError('Unexpected token in JSON: "canary"');
    expect(reportError(foreign, io, false)).toBe(1);
    expect(io.written.err).toContain("SyntaxError");
    expect(io.written.err).not.toMatch(/canary|\bat /);
    reportError(foreign, io, true);
    expect(io.written.err).toMatch(/\bat .*text\.test/);
  });
});

describe("options", () => {
  it("collect pairs, and those of all commands can be left out", () => {
    expect(pairs("x-a=1=2", { b: "3" })).toEqual({ b: "3", "x-a": "1=2" });
    expect(() => pairs("nothing")).toThrow(/name=value/);
    expect(ownOptions({ config: "a.json5", json: true, verbose: true, limit: "5" })).toEqual({
      limit: "5",
    });
  });
});
