/** `npm run test:soak`: runs the soaks, the tests with long loads, loops of crashes and floods. */
import { spawnSync } from "node:child_process";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dirname, "..");
const HELP = `Usage: npm run test:soak -- [--long] [file ...] [options of vitest]

Runs the soaks: long loads, loops of crashes, floods, and the package as users install it.
The short form takes about five minutes on two cores. No soak expects a speed: they may run beside other work.

  --long  runs more seeds, kills and rounds, as the nightly workflow does; takes about half an hour
  --help  prints this

A file runs alone if a part of its path is given. All other arguments are those of vitest.

  npm run test:soak -- test/e2e/crash
  npm run test:soak -- --long test/faults
  npm run test:soak -- --reporter=json --outputFile.json=soaks.json
`;

const given = process.argv.slice(2);
if (given.includes("--help") || given.includes("-h")) process.stdout.write(HELP);
else {
  const args = ["run", "--project", "soak", ...given.filter((arg) => arg !== "--long")];
  const env = { ...process.env, ...(given.includes("--long") && { SOAK_LONG: "1" }) };
  const { status } = spawnSync(
    process.execPath,
    [join(ROOT, "node_modules/vitest/vitest.mjs"), ...args],
    {
      cwd: ROOT,
      env,
      stdio: "inherit",
    },
  );
  process.exitCode = status ?? 1;
}
