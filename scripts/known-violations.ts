/**
 * Prints what the gates of the structure test find, by file. `--write` writes it to `test/structure/known.json`, which may only get
 * shorter: with more violations of a gate than before it writes nothing and ends with 1, unless `--accept` is given.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../test/structure/code.ts";
import {
  countViolations,
  findViolations,
  GATES,
  KNOWN_FILE,
  readKnown,
  readProject,
  type Violations,
} from "../test/structure/gates.ts";

const files = readProject();
const known = readKnown();
const found: Record<string, Violations> = {};
const byFile = new Map<string, string[]>();
let hasGrown = false;
for (const [title, gate] of Object.entries(GATES)) {
  const violations = findViolations(gate, files);
  const [count, before] = [countViolations(violations), countViolations(known[title])];
  if (count > 0) found[title] = violations;
  hasGrown ||= count > before;
  console.log(
    `${String(count).padStart(5)}  ${title}${count === before ? "" : ` (before: ${before})`}`,
  );
  for (const [file, entries] of Object.entries(violations))
    byFile.set(file, [
      ...(byFile.get(file) ?? []),
      ...entries.map((entry) => `${title}: ${entry}`),
    ]);
}
for (const [file, lines] of [...byFile].toSorted(([one], [other]) => one.localeCompare(other)))
  console.log(`\n${file}\n${lines.map((line) => `  ${line}`).join("\n")}`);
if (hasGrown && !process.argv.includes("--accept")) {
  console.error(
    "\nThere are new violations: repair them. They are not written to known.json without `--accept`.",
  );
  process.exitCode = 1;
} else if (process.argv.includes("--write")) {
  writeFileSync(KNOWN_FILE, JSON.stringify(found, null, 2));
  spawnSync(join(ROOT, "node_modules/.bin/oxfmt"), [KNOWN_FILE], { stdio: "inherit" });
}
