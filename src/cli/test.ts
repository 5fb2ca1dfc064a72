import { writeFile } from "node:fs/promises";
import { relative, resolve } from "node:path";
import type { Command } from "commander";
import type { Places } from "../config/watch.ts";
import { RouseError } from "../core/errors.ts";
import { NO_NETWORK } from "../core/no-network.ts";
import { withSnapshot } from "../gateway/snapshot.ts";
import { findCoverage, type FixtureCoverage } from "../workbench/fixture-coverage.ts";
import { readFixtures, runFixtures, type FixtureResult } from "../workbench/fixture-run.ts";
import { renderJunit } from "../workbench/junit.ts";
import { reportError, usage } from "./failure.ts";
import { EXIT, SYSTEM, type CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson } from "./print.ts";
import { printCoverage, printResult, printTestSum } from "./print-fixtures.ts";
import { configInvalid } from "./settings.ts";
import { updateFixtures } from "./update-fixtures.ts";
import { listFolders, watchPlaces } from "./watch-places.ts";

interface RunOptions extends CommonOptions {
  filter?: string;
  junit?: string;
  watch?: boolean;
  update?: boolean;
  yes?: boolean;
  coverage?: boolean;
}

interface Tested {
  results: FixtureResult[];
  coverage: FixtureCoverage | undefined;
  /** Of the config and all that it names. */
  hash: string;
}

const toFiles = ({ config }: RunOptions, { cwd, env }: CliIo) => ({
  ...SYSTEM,
  fetch: NO_NETWORK,
  cwd,
  env,
  ...(config === undefined ? {} : { configFile: config }),
  withoutSecrets: true,
});

/**
 * Runs the fixtures of a folder on the files of the config: without gateway, store, network and secrets. Calls `watch` with
 * what it depends on, before it reads the fixtures.
 * @throws RouseError `config_invalid` with all problems of the config or of the fixtures, `not_found` if there is no fixture.
 */
function runTests(
  folder: string | undefined,
  options: RunOptions,
  io: CliIo,
  watch: (places: Places) => void = () => undefined,
): Promise<Tested> {
  return withSnapshot(toFiles(options, io), async (built) => {
    const { watched } = built.ok ? built.loaded : built;
    if (watched) watch(watched);
    if (!built.ok) throw configInvalid(built);
    const { snapshot } = built.loaded;
    const testsDir =
      folder === undefined ? snapshot.config.hooks.testsDir : resolve(io.cwd, folder);
    watch({ dirs: listFolders(testsDir), files: [] });
    const { fixtures, issues } = readFixtures(testsDir);
    if (issues.length > 0)
      throw new RouseError({ code: "config_invalid", message: "fixtures have problems:", issues });
    const { filter } = options;
    const chosen =
      filter === undefined ? fixtures : fixtures.filter(({ name }) => name.includes(filter));
    const shown = relative(io.cwd, testsDir) || ".";
    if (fixtures.length === 0)
      throw new RouseError({
        code: "not_found",
        message: `there are no fixtures in ${shown}; \`rouse fixtures add latest\` writes one`,
      });
    if (chosen.length === 0)
      throw new RouseError({
        code: "not_found",
        message: `--filter ${filter}: no fixture in ${shown} is named so`,
      });
    const results = await runFixtures(chosen, snapshot);
    return {
      results,
      coverage: options.coverage ? await findCoverage(chosen, snapshot) : undefined,
      hash: snapshot.hash,
    };
  });
}

async function report(tested: Tested, options: RunOptions, io: CliIo): Promise<void> {
  const { results, coverage } = tested;
  if (options.junit !== undefined)
    await writeFile(resolve(io.cwd, options.junit), renderJunit(results));
  const failed = results.filter(({ ok }) => !ok);
  if (options.json) {
    const shown = results.map(({ fixture: { name, file }, ok, differences, actual, reason }) => ({
      name,
      file,
      ok,
      differences,
      actual,
      reason,
    }));
    printJson(io, {
      passed: results.length - failed.length,
      failed: failed.length,
      fixtures: shown,
      coverage,
    });
  } else {
    for (const result of failed) printResult(result, io);
    if (coverage) printCoverage(coverage, io);
  }
  const open = options.update
    ? failed.length - (await updateFixtures(failed, options.yes === true, io))
    : failed.length;
  if (!options.json) printTestSum(results, io);
  io.exitCode = open > 0 ? EXIT.failure : EXIT.ok;
}

/** Runs the tests whenever a change makes a difference, until Ctrl-C. A config or a fixture with problems does not end it. */
async function watchTests(
  folder: string | undefined,
  options: RunOptions,
  io: CliIo,
): Promise<void> {
  let last = "";
  const first = {
    dirs: [io.cwd, resolve(io.cwd, folder ?? "tests")],
    files: options.config === undefined ? [] : [options.config],
  };
  await watchPlaces(first, io, async (watch) => {
    const found = await runTests(folder, options, io, watch).catch((error: unknown) => ({ error }));
    const seen = "error" in found ? describeError(found.error) : describeTested(found);
    if (seen === last) return false;
    last = seen;
    if ("error" in found) io.exitCode = reportError(found.error, io, options.verbose === true);
    else await report(found, options, io);
    return true;
  });
}

const describeError = (error: unknown): string =>
  JSON.stringify([String(error), error instanceof RouseError ? error.issues : []]);

/** What differs between two runs: a file that says the same, or that was written by the run itself, changes nothing of it. */
const describeTested = ({ hash, results }: Tested): string =>
  JSON.stringify([hash, results.map(({ fixture, actual, reason }) => [fixture, actual, reason])]);

async function test(folder: string | undefined, options: RunOptions, io: CliIo): Promise<void> {
  if (options.update && options.watch) throw usage("--update and --watch do not go together");
  if (options.yes && !options.update) throw usage("--yes goes with --update");
  if (options.update && !options.yes && !io.prompts)
    throw usage("--update asks for each fixture: without a terminal, add --yes");
  if (options.watch) return watchTests(folder, options, io);
  await report(await runTests(folder, options, io), options, io);
}

export function register(program: Command, io: CliIo): void {
  reading(
    program
      .command("test [folder]")
      .description(
        "run the fixtures of hooks.testsDir, or of a folder, on the config file: recorded requests with the outcome that you expect. Needs no gateway, store, network or secrets, sends nothing, and writes nothing. Exit code 1 if one differs, 3 if the config or a fixture has problems",
      )
      .option("--filter <text>", "those with this text in their name")
      .option("--junit <file>", "also write the results as JUnit XML")
      .option("--coverage", "list mappings, conditions and expressions that no fixture reaches")
      .option("--update", "show each difference, and ask whether the fixture is to expect it")
      .option("--yes", "with --update: do not ask")
      .option("--watch", "run again when the config, a mapping, a transform or a fixture changes"),
    "rouse test",
    "rouse test --filter shop/ --watch",
    "rouse test --junit results.xml --coverage",
    "rouse test --update",
  ).action((folder: string | undefined, options: RunOptions) => test(folder, options, io));
}
