import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { configIssues } from "../../config/issues.ts";
import { readJson5 } from "../../config/json5.ts";
import { locateIssues } from "../../config/places.ts";
import type { Issue } from "../../core/errors.ts";
import { isInside } from "../../core/files.ts";
import { refuse } from "../records/operation.ts";
import { fixtureSchema, renderFixture, type FixtureFile, type TestCase } from "./fixture.ts";
import { recordedRunSchema } from "./recorded-run.ts";

const toFileName = (text: string): string =>
  text.replace(/[^\w.-]+/g, "-").replace(/^[.-]+|[.-]+$/g, "") || "event";

/** A name that no file of the folder has: `base`, with a number if needed. */
function chooseFixtureName(folder: string, base: string): string {
  const first = toFileName(base);
  for (let count = 1; ; count++) {
    const name = count === 1 ? first : `${first}-${count}`;
    if (!existsSync(join(folder, `${name}.json5`))) return name;
  }
}

/** @throws RouseError `usage` if a file cannot have this name. */
export function checkFixtureName(name: string): string {
  if (/^\w[\w.-]*$/.test(name)) return name.replace(/\.json5?$/, "");
  return refuse(
    `the name ${name}: write letters, digits, \`.\`, \`_\` and \`-\`; the folder is that of the hook's path`,
  );
}

/** The place of a fixture: below `testsDir`, by the hook's path. `base` names it if the user has not. */
interface Place {
  testsDir: string;
  path: string;
  name: string | undefined;
  base: string;
}

/**
 * Writes a fixture into a file of its own.
 * @returns the file.
 * @throws RouseError `usage` if the file is there already.
 */
export async function writeFixture(
  content: FixtureFile,
  { testsDir, path, name, base }: Place,
): Promise<string> {
  const folder = join(testsDir, ...path.split("/").map(toFileName));
  const file = join(folder, `${name ?? chooseFixtureName(folder, base)}.json5`);
  await mkdir(folder, { recursive: true });
  await writeFile(file, renderFixture(content), { flag: "wx" }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === "EEXIST")
        refuse(`${file} is there already: choose another name, or delete it`);
      throw error;
    },
  );
  return file;
}

const FIXTURE = /\.json5?$/;

/** Reads a file as a fixture. Undefined if it has problems, which are added to `issues`. */
function readFixture(name: string, file: string, issues: Issue[]): TestCase | undefined {
  const parsed = readJson5(file);
  if (!parsed.ok) {
    const { ok: _ok, message, ...place } = parsed;
    issues.push({ path: "", message, file, ...place });
    return undefined;
  }
  const checked = fixtureSchema.safeParse(parsed.value);
  const own = [
    ...parsed.duplicates,
    ...(checked.success ? [] : configIssues(checked.error, fixtureSchema)),
  ];
  issues.push(...locateIssues(own, { file }));
  if (!checked.success || own.length > 0) return undefined;
  const { receivedAt, credential, request, run } = checked.data;
  const { reply, ...expect } = checked.data.expect;
  const needsModel = run !== undefined || reply !== undefined;
  return {
    name,
    file,
    receivedAt: Date.parse(receivedAt),
    credential,
    request,
    expect,
    run: needsModel ? (run ?? recordedRunSchema.parse({})) : undefined,
    reply: needsModel ? (reply ?? {}) : undefined,
  };
}

/** Follows a link, and says if it leads to a fixture. One to a folder in `root` does not: its files are found there. */
function isLinkToFixture(file: string, root: string, issues: Issue[]): boolean {
  const isFixture = FIXTURE.test(file);
  const report = (message: string): false => {
    issues.push({ path: "", file, message });
    return false;
  };
  try {
    const target = realpathSync(file);
    const isDirectory = statSync(target).isDirectory();
    if (!isInside(root, target) && (isDirectory || isFixture))
      return report(
        "is a link out of the folder of fixtures: put what it leads to into the folder",
      );
    return !isDirectory && isFixture;
  } catch (error) {
    const { code = "error" } = error as NodeJS.ErrnoException;
    return isFixture && report(`is a link that leads nowhere (${code})`);
  }
}

/** Finds the files of a folder and of those in it. Folders whose name begins with a dot are left out, as by a shell. */
function findFiles(folder: string, root: string, issues: Issue[]): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const file = join(folder, entry.name);
    if (entry.name.startsWith(".")) return [];
    if (entry.isDirectory()) return findFiles(file, root, issues);
    const isFixture = entry.isSymbolicLink()
      ? isLinkToFixture(file, root, issues)
      : entry.isFile() && FIXTURE.test(entry.name);
    return isFixture ? [file] : [];
  });
}

/**
 * Reads the fixtures of a folder and of those in it: `.json5` and `.json` files. A folder that is not there has none.
 * Links to files of the folder are read, links out of it are a problem.
 * @returns the fixtures by name, and what is wrong with files, each with its place.
 */
export function readFixtures(testsDir: string): { fixtures: TestCase[]; issues: Issue[] } {
  if (!existsSync(testsDir)) return { fixtures: [], issues: [] };
  const message = "is no folder: name the folder, and the fixture with --filter";
  if (!statSync(testsDir).isDirectory())
    return { fixtures: [], issues: [{ path: "", file: testsDir, message }] };
  const issues: Issue[] = [];
  const files = findFiles(testsDir, realpathSync(testsDir), issues).toSorted();
  const fixtures = files.flatMap((file) => {
    const name = relative(testsDir, file).replace(FIXTURE, "");
    return readFixture(name, file, issues) ?? [];
  });
  return { fixtures, issues };
}
