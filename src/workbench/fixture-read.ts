import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import { configIssues } from "../config/issues.ts";
import { readJson5 } from "../config/json5.ts";
import { locateIssues } from "../config/places.ts";
import type { Issue } from "../core/errors.ts";
import { isInside } from "../core/files.ts";
import { parseHttpSample, type HttpSample } from "../core/http-sample.ts";
import { fixtureSchema, type EvalCase, type Fixture } from "./fixture.ts";
import { recordedRunSchema } from "./recorded-run.ts";

const FIXTURE = /\.(?:json5?|http)$/;

/** The time of recordings that do not say theirs, so that they give the same on every day. */
const RECORDED_AT = Date.UTC(2026, 0, 1);

export interface Fixtures {
  /** Ordered by name. */
  fixtures: Fixture[];
  /** The files with a recorded run or an expected reply, for `rouse eval`. Ordered by name. */
  cases: EvalCase[];
  /** What is wrong with files, each with its place. */
  issues: Issue[];
}

type Read = { fixture?: Fixture; evalCase?: EvalCase } | { issues: Issue[] };

/** A `.http` file names the words and the session of one action. */
function fromSample(
  { path, headers, body, expect }: HttpSample,
  name: string,
  file: string,
): Fixture {
  const { "content-type": contentType, ...others } = headers;
  const { mapping } = expect;
  const session = expect.sessionKey === null ? {} : { session: expect.sessionKey };
  const type = contentType === undefined ? {} : { contentType };
  return {
    name,
    file,
    request: { method: "POST", path, query: {}, headers: others, text: body, ...type },
    receivedAt: RECORDED_AT,
    credential: undefined,
    expect:
      mapping === null
        ? { outcome: "unmatched" }
        : {
            outcome: "accepted",
            mapping,
            actions: [{ mapping, ...session, contains: [...expect.text] }],
          },
  };
}

function readSample(name: string, file: string): Read {
  try {
    return { fixture: fromSample(parseHttpSample(name, readFileSync(file, "utf8")), name, file) };
  } catch (error) {
    return { issues: [{ path: "", message: (error as Error).message, file }] };
  }
}

function readFixture(name: string, file: string): Read {
  if (file.endsWith(".http")) return readSample(name, file);
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
  const { credential, request, run } = checked.data;
  const { reply, outcome, ...expect } = checked.data.expect;
  const common = { name, file, receivedAt: Date.parse(checked.data.receivedAt), credential };
  return {
    ...(request &&
      outcome !== undefined && {
        fixture: { ...common, request, expect: { ...expect, outcome }, reply },
      }),
    ...((run || reply) && {
      evalCase: { ...common, request, run: run ?? recordedRunSchema.parse({}), reply: reply ?? {} },
    }),
  };
}

/** A file with what stands below a folder before its name, or why it is not read. */
type Found = { file: string } | { issue: Issue };

/** Follows a link to a fixture. Undefined if it leads to a folder in `root`, whose files are found there. */
function followLink(file: string, root: string): Found | undefined {
  const place = { path: "", file };
  try {
    const target = realpathSync(file);
    const isDirectory = statSync(target).isDirectory();
    if (!isInside(root, target) && (isDirectory || FIXTURE.test(file)))
      return {
        issue: {
          ...place,
          message: "is a link out of the folder of fixtures: put what it leads to into the folder",
        },
      };
    return !isDirectory && FIXTURE.test(file) ? { file } : undefined;
  } catch (error) {
    const { code = "error" } = error as NodeJS.ErrnoException;
    return FIXTURE.test(file)
      ? { issue: { ...place, message: `is a link that leads nowhere (${code})` } }
      : undefined;
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
 * Reads the fixtures of a folder and of those in it: `.json5`, `.json` and `.http` files. A folder that is not there has none.
 * Links to files of the folder are read, links out of it are a problem.
 */
export function readFixtures(testsDir: string): Fixtures {
  if (existsSync(testsDir) && !statSync(testsDir).isDirectory())
    return {
      fixtures: [],
      cases: [],
      issues: [
        {
          path: "",
          file: testsDir,
          message: "is no folder: name the folder, and the fixture with --filter",
        },
      ],
    };
  const found = existsSync(testsDir) ? findFiles(testsDir, realpathSync(testsDir)) : [];
  const files = found.flatMap((one) => ("file" in one ? [one.file] : [])).toSorted();
  const read = files.map((file) => readFixture(toFixtureName(file, testsDir), file));
  return {
    fixtures: read.flatMap((one) => ("fixture" in one ? (one.fixture ?? []) : [])),
    cases: read.flatMap((one) => ("evalCase" in one ? (one.evalCase ?? []) : [])),
    issues: [
      ...found.flatMap((one) => ("issue" in one ? [one.issue] : [])),
      ...read.flatMap((one) => ("issues" in one ? one.issues : [])),
    ],
  };
}
