import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";

export const ROOT = resolve(import.meta.dirname, "../..");
const bin = (name: string): string => join(ROOT, "node_modules/.bin", name);

/** The exit code and the output of a program. */
export interface Ran {
  code: number;
  output: string;
}

/** Runs a program of the repository's packages with Rouse's own Node. */
export function runTool(name: string, args: string[], cwd: string): Ran {
  // A test of vitest inside a test of vitest must not take itself for its parent's worker.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([key]) => !/^(?:VITEST|NODE_OPTIONS|TEST$)/.test(key)),
  );
  const path = `${join(ROOT, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`;
  try {
    return {
      code: 0,
      output: execFileSync(bin(name), args, {
        cwd,
        env: { ...env, PATH: path },
        encoding: "utf8",
        stdio: "pipe",
      }),
    };
  } catch (error) {
    const {
      status,
      stdout = "",
      stderr = "",
    } = error as { status?: number; stdout?: string; stderr?: string };
    return { code: status ?? 1, output: stdout + stderr };
  }
}

/**
 * Makes an empty folder with a `node_modules` in which Rouse is installed from its packed form. The packages that Rouse and
 * its plugins need are the repository's own, so that nothing is downloaded.
 */
export function installPacked(): { dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), "rouse-authors-"));
  const staging = join(dir, "staging");
  mkdirSync(staging);
  const { files } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    files: string[];
  };
  // The repository's `dist` belongs to the test of the whole package, which may run at the same time.
  // Types are checked elsewhere.
  const built = runTool(
    "tsc",
    ["-p", "tsconfig.build.json", "--noCheck", "--outDir", join(staging, "dist")],
    ROOT,
  );
  if (built.code !== 0) throw new Error(built.output);
  for (const name of [
    "package.json",
    ...files.filter((file) => file !== "dist" && !file.startsWith("!")),
  ])
    cpSync(join(ROOT, name), join(staging, name), { recursive: true });
  const [packed] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", dir], {
      cwd: staging,
      encoding: "utf8",
    }),
  ) as { filename: string }[];
  const modules = join(dir, "node_modules");
  mkdirSync(join(modules, "rouse"), { recursive: true });
  execFileSync("tar", [
    "-xzf",
    join(dir, packed?.filename ?? ""),
    "--strip-components=1",
    "-C",
    join(modules, "rouse"),
  ]);
  rmSync(staging, { recursive: true });
  for (const name of readdirSync(join(ROOT, "node_modules")))
    if (name !== "rouse" && name !== ".package-lock.json")
      symlinkSync(join(ROOT, "node_modules", name), join(modules, name));
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) };
}

interface Report {
  testResults: {
    name: string;
    message: string;
    assertionResults: { ancestorTitles: string[]; title: string; status: string }[];
  }[];
}

/** Titles of tests by their file's path in the folder. */
export type Titles = ReadonlyMap<string, readonly string[]>;

/** Runs the tests of a folder in processes of their own. `args` are those of vitest. */
export function runTests(
  folder: string,
  args: readonly string[] = [],
  workers = 1,
): { passed: Titles; failed: Titles } {
  const file = join(mkdtempSync(join(tmpdir(), "rouse-report-")), "report.json");
  const options = [
    "--no-isolate",
    `--maxWorkers=${workers}`,
    "--reporter=json",
    `--outputFile=${file}`,
    "--root",
    folder,
    ...args,
  ];
  const { output } = runTool("vitest", ["run", ...options], folder);
  if (!existsSync(file)) throw new Error(output);
  const report = JSON.parse(readFileSync(file, "utf8")) as Report;
  rmSync(dirname(file), { recursive: true });
  const titles = (status: string): Titles =>
    new Map(
      report.testResults.map(({ name, message, assertionResults }) => [
        relative(folder, name),
        // A file that could not be run has a message and no tests.
        status === "failed" && assertionResults.length === 0
          ? [message]
          : assertionResults
              .filter((test) => test.status === status)
              .map((test) => [...test.ancestorTitles, test.title].join(" > ")),
      ]),
    );
  return { passed: titles("passed"), failed: titles("failed") };
}
