import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { GROUPS } from "../../bench/groups.ts";
import { OPEN_LOOP_PER_SECOND } from "../../bench/hooks.ts";
import { CONNECTIONS } from "../../bench/measure.ts";
import { ROOT } from "../deploy/world.ts";

/** `test/docs/blocks.test.ts` compares the generated parts with the results. */
const page = readFileSync(join(ROOT, "docs/performance.md"), "utf8");
const GENERATED = /^<!-- results: (.*) -->\n[^]*?^<!-- end of results -->$/gm;

it("the page about performance has every section that the benchmarks measure", () => {
  const measured = Object.values(GROUPS).flatMap(({ section, offPage }) =>
    offPage ? [] : [section],
  );
  const shown = [...page.matchAll(GENERATED)].map(([, name]) => name);
  expect(new Set(shown)).toEqual(new Set(["where and when", ...measured, "Documents"]));
});

it("the page about performance has no figure that is not generated, but loads that the benchmarks know", () => {
  const prose = page
    .replaceAll(GENERATED, "")
    .replaceAll(/^```[^]*?^```$/gm, "")
    .replaceAll(/`[^`\n]*`|\[[^\]]*\]\([^)]*\)/g, "");
  expect(new Set(prose.match(/\d+(?:[.,]\d+)*/g))).toEqual(
    new Set([CONNECTIONS, OPEN_LOOP_PER_SECOND, 99, 100].map(String)),
  );
});
