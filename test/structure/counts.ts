/** Counts what `budgets.json` limits. */
import { execFile } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import type { Command } from "commander";
import { importPlugin, listPlugins } from "../../scripts/plugin-catalog.ts";
import { processIo } from "../../src/cli/io.ts";
import { describeCommands } from "../../src/cli/run.ts";
import { describeOptions } from "../../scripts/options.ts";
import { configSchema } from "../../src/config/schema/index.ts";
import { EXECUTED, LINES, QUESTIONS, type Counts } from "./budgets.ts";
import { type CodeFile, countLines, isProduct, readCode, ROOT } from "./code.ts";
import { importGraph } from "./imports.ts";
import { declaredExports } from "./names.ts";

/** The folder that answers for a file: two parts of its path, in the console three, because nearly all of it is in one folder. */
export const getFolder = (path: string): string =>
  dirname(path)
    .split("/")
    .slice(0, path.startsWith("console/") ? 3 : 2)
    .join("/");

/** The lines of code by folder, without blank lines and comments. */
export function linesByFolder(files: readonly CodeFile[]): Record<string, number> {
  const folders: Record<string, number> = {};
  for (const file of files)
    folders[getFolder(file.path)] = (folders[getFolder(file.path)] ?? 0) + countLines(file);
  return Object.fromEntries(
    Object.entries(folders).toSorted(([one], [other]) => (one < other ? -1 : 1)),
  );
}

/** The files that exactly one other file imports, types included. */
export function importedOnce(files: readonly CodeFile[]): string[] {
  const importers = new Map<string, number>();
  for (const targets of importGraph(files).values())
    for (const target of new Set(targets)) importers.set(target, (importers.get(target) ?? 0) + 1);
  return files.map(({ path }) => path).filter((path) => importers.get(path) === 1);
}

const QUESTION = /^\*?[\s*]*(?:What|How|Whether|Why|Where|Who)\b/;

/** The comments of each top folder that begin with a question word instead of a verb or the noun. */
export function questionsByFolder(files: readonly CodeFile[]): Record<string, number> {
  const folders: Record<string, number> = {};
  for (const { path, comments } of files) {
    const [folder = ""] = path.split("/");
    const found = comments.filter(({ value }) => QUESTION.test(value)).length;
    folders[folder] = (folders[folder] ?? 0) + found;
  }
  return folders;
}

/** Counts the words of a page. A word has a letter. */
export const countWords = (page: string): number => page.match(/\S*\p{L}\S*/gu)?.length ?? 0;

const withSubcommands = (command: Command): Command[] => [
  command,
  ...command.commands.flatMap(withSubcommands),
];

/** The files that each request executes, counted in a process of its own. */
async function executedFiles(): Promise<Record<string, number>> {
  const args = [
    "--conditions=rouse-source",
    "--disable-warning=ExperimentalWarning",
    join(ROOT, "scripts/explain.ts"),
    "--json",
  ];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  const requests = JSON.parse(stdout) as Record<string, Record<string, number>>;
  return Object.fromEntries(
    Object.entries(requests).map(([name, files]) => [name, Object.keys(files).length]),
  );
}

/** Counts everything. */
export async function countAll(): Promise<Counts> {
  const executed = executedFiles();
  const files = readCode(["src", "plugins", "console", "test"]);
  const product = files.filter(isProduct);
  const plugins = await Promise.all(listPlugins().map(importPlugin));
  const commands = withSubcommands(await describeCommands(processIo()));
  const pages = globSync("docs/**/*.md", { cwd: ROOT }).map((page) =>
    readFileSync(join(ROOT, page), "utf8"),
  );
  return {
    totals: {
      "commands of the CLI": commands.length,
      "exported names": product.reduce((sum, file) => sum + declaredExports(file).size, 0),
      "files that only one other file imports": importedOnce(product).length,
      "keys of the config": describeOptions(configSchema).length,
      "keys of the config, of plugins": plugins.reduce(
        (sum, { config }) => sum + (config ? describeOptions(config).length : 0),
        0,
      ),
      "options of the CLI": commands.reduce((sum, { options }) => sum + options.length, 0),
      "words in docs": pages.reduce((sum, page) => sum + countWords(page), 0),
    },
    [QUESTIONS]: questionsByFolder(files),
    [EXECUTED]: await executed,
    [LINES]: linesByFolder(files),
  };
}
