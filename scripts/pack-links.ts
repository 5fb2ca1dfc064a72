/**
 * Makes the links of pages that lead out of the package absolute, such as those to pictures, before npm packs the pages as they
 * are. With `--back`, which npm runs afterwards, they lead to the repository's own files again. Given the process of npm, they
 * also do when it ends early.
 */
import { spawn } from "node:child_process";
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import manifest from "../package.json" with { type: "json" };

const { files, repository } = manifest;
const ADDRESS = repository.url.replace(/^git\+/, "").replace(/\.git$/, "");
const PICTURE = /\.(?:png|svg)$/;

const isAmong = (path: string, names: readonly string[]): boolean =>
  names.some((name) => path === name || path.startsWith(`${name}/`));
const left = files.flatMap((name) => (name.startsWith("!") ? name.slice(1) : []));
const isPacked = (path: string): boolean => isAmong(path, files) && !isAmong(path, left);

const toAbsolute = (text: string, page: string): string =>
  text.replaceAll(/(?<=\]\()(?![a-z]+:)[^)#\s]+/g, (link) => {
    const path = join(dirname(page), link);
    return isPacked(path) ? link : `${ADDRESS}/${PICTURE.test(path) ? "raw" : "blob"}/HEAD/${path}`;
  });

const toRelative = (text: string, page: string): string =>
  text
    .split(`](${ADDRESS}/`)
    .map((part, index) =>
      index === 0
        ? part
        : part.replace(/^(?:raw|blob)\/HEAD\/([^)#\s]+)/, (_, path: string) =>
            relative(dirname(page), path),
          ),
    )
    .join("](");

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const isBack = process.argv.includes("--back");
const npm = Number(process.argv.at(-1));
if (isBack) while (npm > 0 && isAlive(npm)) await sleep(100);
else if (npm > 0) {
  // npm runs nothing more after a failure, such as a folder for the package that is not there.
  const args = [fileURLToPath(import.meta.url), "--back", String(npm)];
  spawn(process.execPath, args, { detached: true, stdio: "ignore" }).unref();
}
const change = isBack ? toRelative : toAbsolute;
for (const page of globSync(["*.md", "docs/**/*.md"]).filter(isPacked)) {
  const text = readFileSync(page, "utf8");
  const changed = change(text, page);
  if (changed !== text) writeFileSync(page, changed);
}
