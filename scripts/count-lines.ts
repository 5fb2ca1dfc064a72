/**
 * Counts the lines of code of `src` and of `src` with `plugins`, by folder: formatted TypeScript and JavaScript, without blank lines
 * and comments. `--json` prints JSON; a path counts another checkout.
 */
import { spawnSync } from "node:child_process";
import { join, resolve } from "node:path";
import { countLines, readCode, ROOT } from "../test/structure/code.ts";

const args = process.argv.slice(2);
const root = resolve(args.find((arg) => !arg.startsWith("--")) ?? ROOT);
// Oxfmt names the files whose lines it would change.
const { stdout, status } = spawnSync(join(ROOT, "node_modules/.bin/oxfmt"), ["--list-different", "src", "plugins"], {
  cwd: root,
  encoding: "utf8",
});
if (status !== 0) console.error(`These files are not formatted; run \`npm run format\` first:\n${stdout}`);

const folders = new Map<string, { files: number; lines: number }>();
for (const file of readCode(["src", "plugins"], root)) {
  const folder = file.path.split("/").slice(0, 2).join("/");
  const before = folders.get(folder) ?? { files: 0, lines: 0 };
  folders.set(folder, { files: before.files + 1, lines: before.lines + countLines(file) });
}
const sum = (prefix: string) =>
  [...folders]
    .filter(([folder]) => folder.startsWith(prefix))
    .reduce((total, [, { files, lines }]) => ({ files: total.files + files, lines: total.lines + lines }), { files: 0, lines: 0 });
const totals = { src: sum("src/"), "src + plugins": sum("") };

if (args.includes("--json")) console.log(JSON.stringify({ folders: Object.fromEntries(folders), totals }, null, 2));
else
  for (const [name, { files, lines }] of [...folders, ...Object.entries(totals)])
    console.log(`${name.padEnd(24)}${String(files).padStart(6)}${String(lines).padStart(8)}`);
process.exitCode = status ?? 1;
