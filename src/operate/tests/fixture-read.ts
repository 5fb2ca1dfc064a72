import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { configIssues } from "../../config/issues.ts";
import { readJson5 } from "../../config/json5.ts";
import { locateIssues } from "../../config/places.ts";
import type { Issue } from "../../core/errors.ts";
import { isInside } from "../../core/files.ts";
import { fixtureSchema, type TestCase } from "./fixture.ts";
import { recordedRunSchema } from "./recorded-run.ts";

const FIXTURE = /\.json5?$/;

interface Fixtures {
  /** Ordered by name. */
  fixtures: TestCase[];
  /** What is wrong with files, each with its place. */
  issues: Issue[];
}

type Read = { fixture: TestCase } | { issues: Issue[] };

function readFixture(name: string, file: string): Read {
  const parsed = readJson5(file);
  if (!parsed.ok) {
    const { ok: _ok, message, ...place } = parsed;
    return { issues: [{ path: "", message, file, ...place }] };
  }
  const checked = fixtureSchema.safeParse(parsed.value);
  const issues = [
    ...parsed.duplicates,
    ...(checked.success ? [] : configIssues(checked.error, fixtureSchema)),
  ];
  if (!checked.success || issues.length > 0) return { issues: locateIssues(issues, { file }) };
  const { receivedAt, credential, request, run } = checked.data;
  const { reply, outcome, ...expect } = checked.data.expect;
  const needsModel = run !== undefined || reply !== undefined;
  return {
    fixture: {
      name,
      file,
      receivedAt: Date.parse(receivedAt),
      credential,
      request,
      expect: outcome && { ...expect, outcome },
      run: needsModel ? (run ?? recordedRunSchema.parse({})) : undefined,
      reply: needsModel ? (reply ?? {}) : undefined,
    },
  };
}

/** A file of fixtures, or why it is not read. */
type Found = { file: string } | { issue: Issue };

/** Follows a link. Undefined if it leads to what is no fixture, or to a folder in `root`, whose files are found there. */
function followLink(file: string, root: string): Found | undefined {
  const isFixture = FIXTURE.test(file);
  const refuse = (message: string): Found => ({ issue: { path: "", file, message } });
  try {
    const target = realpathSync(file);
    const isDirectory = statSync(target).isDirectory();
    if (!isInside(root, target) && (isDirectory || isFixture))
      return refuse(
        "is a link out of the folder of fixtures: put what it leads to into the folder",
      );
    return !isDirectory && isFixture ? { file } : undefined;
  } catch (error) {
    const { code = "error" } = error as NodeJS.ErrnoException;
    return isFixture ? refuse(`is a link that leads nowhere (${code})`) : undefined;
  }
}

/** Finds the files of a folder and of those in it. Folders whose name begins with a dot are left out, as by a shell. */
function findFiles(folder: string, root: string): Found[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry): Found[] => {
    const file = join(folder, entry.name);
    if (entry.name.startsWith(".")) return [];
    if (entry.isDirectory()) return findFiles(file, root);
    if (entry.isSymbolicLink()) return [followLink(file, root) ?? []].flat();
    return entry.isFile() && FIXTURE.test(entry.name) ? [{ file }] : [];
  });
}

const toFixtureName = (file: string, testsDir: string): string =>
  file
    .slice(testsDir.length)
    .replace(/^[\\/]/, "")
    .replace(FIXTURE, "");

/**
 * Reads the fixtures of a folder and of those in it: `.json5` and `.json` files. A folder that is not there has none.
 * Links to files of the folder are read, links out of it are a problem.
 */
export function readFixtures(testsDir: string): Fixtures {
  const isThere = existsSync(testsDir);
  const message = "is no folder: name the folder, and the fixture with --filter";
  if (isThere && !statSync(testsDir).isDirectory())
    return { fixtures: [], issues: [{ path: "", file: testsDir, message }] };
  const found = isThere ? findFiles(testsDir, realpathSync(testsDir)) : [];
  const files = found.flatMap((one) => ("file" in one ? [one.file] : [])).toSorted();
  const read = files.map((file) => readFixture(toFixtureName(file, testsDir), file));
  return {
    fixtures: read.flatMap((one) => ("fixture" in one ? one.fixture : [])),
    issues: [
      ...found.flatMap((one) => ("issue" in one ? [one.issue] : [])),
      ...read.flatMap((one) => ("issues" in one ? one.issues : [])),
    ],
  };
}
