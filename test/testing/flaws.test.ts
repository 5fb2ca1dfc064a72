import { join } from "node:path";
import { expect, it } from "vitest";
import { runTests } from "./packed.ts";
import { STORE_FLAWS } from "./store-flaws.ts";

const FOLDER = join(import.meta.dirname, "broken");

it("rouse/testing: every suite finds the flaws that it is there for", () => {
  // Most of the time they wait for what does not come.
  const { passed, failed } = runTests(FOLDER, ["channel", "data", "source", "turns"], 4);
  const suiteOf = (title: string): string => title.split(" > ")[0] ?? "";
  // Ids of presets have no spaces.
  const words = (text: string): string => text.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  const failures = [...failed.values()].flat();
  const suites = new Set([...[...passed.values()].flat(), ...failures].map(suiteOf));
  // A suite is named after its kind and the test that has to find its flaw.
  const blind = [...suites].filter((suite) => {
    const expected = suite.slice(suite.indexOf(" ") + 1);
    return !failures.some(
      (title) =>
        suiteOf(title) === suite &&
        words(title.slice(suite.length)).startsWith(`-${words(expected)}`),
    );
  });
  expect(blind).toEqual([]);
  for (const kind of [
    "channel",
    "context",
    "extractor",
    "preset",
    "provider",
    "routes",
    "scheme",
    "source",
    "tools",
    "transform",
  ])
    expect([kind, [...suites].filter((suite) => suite.startsWith(`${kind} `)).length > 2]).toEqual([
      kind,
      true,
    ]);
}, 180_000);

it("rouse/testing: the suite of stores finds the flaws that it is there for", () => {
  const pattern = STORE_FLAWS.map(([expected]) => expected).join("|");
  const { failed } = runTests(FOLDER, ["store", "-t", pattern]);
  const failures = [...failed.values()].flat();
  for (const [index, [expected]] of STORE_FLAWS.entries())
    expect([
      expected,
      failures.some((title) => title.includes(`flaw ${index} `) && title.includes(expected)),
    ]).toEqual([expected, true]);
}, 180_000);
