import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import {
  type BudgetRow,
  type Budgets,
  compareBudgets,
  LINES,
  lowerBudgets,
  sumByRoot,
} from "./budgets.ts";
import { parseAll, ROOT } from "./code.ts";
import { countWords, importedOnce, linesByFolder, questionsByFolder } from "./counts.ts";

/** The script reads all of the code: that takes seconds, and on busy cores much longer. */
const SCRIPT_MS = 240_000;

it(
  "budgets: every budget is met",
  async () => {
    // With a problem it ends with 1, and prints the same.
    const { stdout } = await promisify(execFile)("npm", ["run", "-s", "budgets", "--", "--json"], {
      cwd: ROOT,
    }).catch((error: Error & { stdout: string }) => {
      if (error.stdout === "") throw error;
      return error;
    });
    const rows = JSON.parse(stdout) as BudgetRow[];
    expect(rows.length).toBeGreaterThan(80);
    const problems = rows
      .filter(({ problem }) => problem !== undefined)
      .map(({ group, name, problem }) => `${group}: ${name}: ${problem}`);
    expect(problems.join("\n")).toBe("");
  },
  SCRIPT_MS,
);

describe("the comparison", () => {
  const counts = { [LINES]: { "src/agent": 100, "src/chat": 50 } };
  const budgets = (entries: Budgets[string]): Budgets => ({
    [LINES]: { "src/agent": 100, "src/chat": 50, ...entries },
  });
  const lower = "run `npm run budgets -- --lower`";
  const write = (entry: string): string => `write ${entry} into test/structure/budgets.json`;

  it.each<[string, Budgets, string[]]>([
    ["all as it is", budgets({}), []],
    [
      "one line too many",
      budgets({ "src/agent": 99 }),
      [
        `100, 1 over the budget of 99: take something out, or ${write('"src/agent": { "budget": 100, "reason": "…" }')}`,
      ],
    ],
    ["one of a hundred less", budgets({ "src/agent": 101 }), []],
    [
      "two of a hundred less",
      budgets({ "src/agent": 102 }),
      [`100, 2 less than the budget of 102: ${lower}`],
    ],
    [
      "a folder without a budget",
      { [LINES]: { "src/agent": 100 } },
      [`50, and no budget: ${write('"src/chat": { "budget": 50, "reason": "…" }')}`],
    ],
    [
      "a budget without a folder",
      budgets({ "src/gone": 7 }),
      [`a budget of 7, but nothing to count: ${lower}`],
    ],
    [
      "a budget without a group",
      { ...budgets({}), gone: { x: 1 } },
      [`a budget of 1, but nothing to count: ${lower}`],
    ],
    [
      "raised with a reason",
      budgets({ "src/agent": { budget: 100, reason: "streams answers" } }),
      [],
    ],
    [
      "raised without a reason",
      budgets({ "src/agent": { budget: 100 } as never }),
      ["100, raised without a reason: write why"],
    ],
    [
      "raised with an empty reason",
      budgets({ "src/agent": { budget: 100, reason: "" } }),
      ["100, raised without a reason: write why"],
    ],
    [
      "raised with the reason of the message",
      budgets({ "src/agent": { budget: 100, reason: "…" } }),
      ["100, raised without a reason: write why"],
    ],
    [
      "raised, and not enough",
      budgets({ "src/agent": { budget: 99, reason: "x" } }),
      [expect.stringContaining("1 over the budget of 99")],
    ],
  ])("%s", (_name, given, problems) => {
    expect(compareBudgets(given, counts).flatMap(({ problem }) => problem ?? [])).toEqual(problems);
  });

  it("lowers what is less, drops what is gone, and raises and adds nothing", () => {
    const given = {
      [LINES]: { "src/agent": 99, "src/chat": { budget: 60, reason: "streams" }, "src/gone": 7 },
      gone: { x: 1 },
    };
    const more = { [LINES]: { ...counts[LINES], "src/new": 1 } };
    expect(lowerBudgets(given, more)).toEqual({
      [LINES]: { "src/agent": 99, "src/chat": { budget: 50, reason: "streams" } },
    });
    expect(lowerBudgets({}, counts)).toEqual(counts);
  });
});

describe("the counts", () => {
  it("lines are counted by folder, without blank lines and comments", () => {
    const files = parseAll({
      "src/index.ts": "export {};\n",
      "src/agent/a.ts": "/** A. */\nexport const a = 1;\n\n// Why.\nexport const b = 2; // 2\n",
      "src/agent/deep/b.ts": "export const text = `\n// no comment\n\n`;\n",
      "console/src/pages/runs/index.tsx": "export const page = 1;\n",
    });
    const lines = { "console/src/pages": 1, src: 1, "src/agent": 5 };
    expect(linesByFolder(files)).toEqual(lines);
    expect(sumByRoot(lines)).toEqual({ "console/": 1, "src/": 6 });
  });

  it("a file counts as imported once if one other file imports it, however often", () => {
    const files = parseAll({
      "src/a.ts": 'import { b } from "./b.ts"; import type { B } from "./b.ts"; import "./c.ts";',
      "src/b.ts": 'import type { C } from "./c.ts";',
      "src/c.ts": "",
    });
    expect(importedOnce(files)).toEqual(["src/b.ts"]);
  });

  it("comments that begin with a question word are counted by top folder", () => {
    const files = parseAll({
      "src/a.ts":
        "/** What it is. */\nexport const a = 1;\n/**\n * Whether it is. */\n// How.\nconst b = 1;\n",
      "src/core/b.ts": "/** Tells what it is. Why not. */\nexport const How = 1; // whole\n",
      "test/c.ts": "// Whatever it is.\n",
    });
    expect(questionsByFolder(files)).toEqual({ src: 3, test: 0 });
  });

  it("words have a letter", () => {
    expect(countWords("# One two\n\n| --- | 300 |\n\nthree")).toBe(3);
  });
});
