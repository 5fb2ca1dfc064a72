/** Writes what a run of Vitest found, by file of tests, as JSON to the file that `CI_REPORT` names. */
import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { SerializedError } from "vitest";
import type { Reporter, TestModule } from "vitest/node";

export interface FileReport {
  passed: number;
  /** One for each failed test, and for each error of the file outside its tests. */
  failures: string[];
}

export interface Report {
  /** By path from the folder that the run was started in. */
  files: Record<string, FileReport>;
  /** Errors that belong to no file. */
  outside: string[];
}

const LINES_SHOWN = 12;

function renderFailure(title: string, { message, stack }: SerializedError): string {
  const frames = (stack ?? "").split("\n").filter((line) => line.trimStart().startsWith("at "));
  return [title, ...[...message.split("\n"), ...frames].slice(0, LINES_SHOWN)]
    .filter((line) => line !== "")
    .join("\n");
}

function reportModule(module: TestModule): FileReport {
  const failures = [module, ...module.children.allSuites()].flatMap((suite) =>
    suite.errors().map((error) => renderFailure("", error)),
  );
  let passed = 0;
  for (const test of module.children.allTests()) {
    const { state, errors } = test.result();
    if (state === "passed") passed++;
    if (state === "failed")
      failures.push(
        renderFailure(test.fullName, errors[0] ?? { message: "failed without an error" }),
      );
  }
  // A process that ended takes the files with it that it had not come to.
  if (!["passed", "failed", "skipped"].includes(module.state()))
    failures.push("The file did not run to its end.");
  return { passed, failures };
}

export default class CiReporter implements Reporter {
  onTestRunEnd(
    modules: ReadonlyArray<TestModule>,
    unhandledErrors: ReadonlyArray<SerializedError>,
  ): void {
    const toFile = (path: string): string => relative(process.cwd(), path);
    const report: Report = { files: {}, outside: [] };
    for (const module of modules) {
      const { passed, failures } = reportModule(module);
      const file = (report.files[toFile(module.moduleId)] ??= { passed: 0, failures: [] });
      file.passed += passed;
      file.failures.push(...failures);
    }
    for (const error of unhandledErrors) {
      const path: unknown = error["VITEST_TEST_PATH"];
      const file = typeof path === "string" ? report.files[toFile(path)] : undefined;
      (file?.failures ?? report.outside).push(renderFailure("An error outside the tests:", error));
    }
    writeFileSync(String(process.env["CI_REPORT"]), JSON.stringify(report));
  }
}
