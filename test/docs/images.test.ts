import { execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { expect, it, vi } from "vitest";
import { ROOT } from "../deploy/world.ts";

/** Pictures of the console are for readers of the repository and of the site; the package goes without them. */
const MAX_BYTES = 150 * 1024;
const IMAGES = globSync("docs/images/*", { cwd: ROOT }).toSorted();
const PAGES = ["README.md", ...globSync("docs/**/*.md", { cwd: ROOT })].map((file) =>
  readFileSync(join(ROOT, file), "utf8"),
);

it.each(IMAGES)("%s is small, and a page shows it with a text in its place", (image) => {
  expect(statSync(join(ROOT, image)).size).toBeLessThanOrEqual(MAX_BYTES);
  const texts = PAGES.flatMap((page) => [
    ...page.matchAll(/!\[([^\]]*)\]\((?:docs\/)?images\/([\w.-]+)\)/g),
  ])
    .filter(([, , name]) => name === basename(image))
    .map(([, text = ""]) => text);
  expect(texts.length).toBeGreaterThan(0);
  for (const text of texts) expect(text.length).toBeGreaterThan(40);
});

it("the package has the pages, and not their pictures", () => {
  const packed = JSON.parse(
    execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
      cwd: ROOT,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    }),
  ) as { files: { path: string }[] }[];
  const paths = packed.flatMap(({ files }) => files.map(({ path }) => path));
  expect(IMAGES.length).toBeGreaterThan(0);
  expect(paths).toContain("docs/console.md");
  expect(paths.filter((path) => path.startsWith("docs/images"))).toEqual([]);
});

it("README.md: the links that the package changes are restored, also if npm cannot write the package", async () => {
  const clone = mkdtempSync(join(tmpdir(), "rouse-pack-"));
  for (const name of ["docs", "scripts", "README.md"])
    cpSync(join(ROOT, name), join(clone, name), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(clone, "node_modules"));
  // The build is left out: built files have no links.
  const manifest = readFileSync(join(ROOT, "package.json"), "utf8");
  writeFileSync(join(clone, "package.json"), manifest.replace("npm run -s build && ", ""));
  const read = (): string => readFileSync(join(clone, "README.md"), "utf8");
  const before = read();
  const pack = (folder: string): number | null =>
    spawnSync("npm", ["pack", "--pack-destination", folder], { cwd: clone }).status;
  expect(pack(join(clone, "none"))).toBeGreaterThan(0);
  await vi.waitFor(() => expect(read()).toBe(before), 10_000);
  expect(pack(clone)).toBe(0);
  expect(read()).toBe(before);
  const [tarball = ""] = globSync("*.tgz", { cwd: clone });
  const packed = execFileSync("tar", ["xzOf", tarball, "package/README.md"], {
    cwd: clone,
    encoding: "utf8",
  });
  expect(packed).toMatch(/\]\(https:\S+\/raw\/HEAD\/docs\/images\/event\.png\)/);
  rmSync(clone, { recursive: true });
});
