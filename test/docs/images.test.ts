import { execFileSync } from "node:child_process";
import { globSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, it } from "vitest";
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

it("leaves the pictures out of the package, and takes the pages along", () => {
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
