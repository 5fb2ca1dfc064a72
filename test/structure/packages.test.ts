import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { PACKAGES } from "./packages.ts";

interface Lock {
  packages: Record<string, { dev?: boolean; dependencies?: object; optionalDependencies?: object }>;
}
const read = (name: string): string => readFileSync(new URL(name, import.meta.url), "utf8");
const lock = JSON.parse(read("../../package-lock.json")) as Lock;

it("packages: those of an installation are on one list, each with its reason", () => {
  const { dependencies = {}, optionalDependencies = {} } = lock.packages[""] ?? {};
  expect(
    Object.keys({ ...dependencies, ...optionalDependencies }).toSorted(),
    "give the package a reason in test/structure/packages.ts, or make it a dev dependency",
  ).toEqual(Object.keys(PACKAGES).toSorted());
  expect(Object.entries(PACKAGES).filter(([, reason]) => reason.length < 8)).toEqual([]);
});

it("packages: the output of `npm ls --omit=dev --all` is unchanged", () => {
  // The lock file marks what only developers need; names say enough, since versions change with every update.
  const installed = Object.entries(lock.packages).flatMap(([path, { dev }]) =>
    path === "" || dev === true ? [] : [path.split("node_modules/").at(-1) ?? path],
  );
  const listed = JSON.parse(read("installed.json")) as string[];
  expect(
    [...new Set(installed)].toSorted(),
    "an installation gets other packages than before: look at each, then write the new list into test/structure/installed.json",
  ).toEqual(listed);
});
