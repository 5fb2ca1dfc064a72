import { execFile, type ExecFileException } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { editConfigFile } from "../../config/edit.ts";
import type { PluginEntry } from "../../config/schema/plugin-entry.ts";
import { findConfig } from "../../config/load.ts";
import { RouseError } from "../../core/errors.ts";
import { readInstalled } from "../../plugin/integrity.ts";
import { answering, listing, type Noun } from "../command.ts";
import { read } from "../gateway/connect.ts";
import { noSuch, usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import type { CommonOptions } from "../options.ts";
import { member, readWritten, toLoadOptions } from "../settings.ts";

/** A name of a package, with or without a version, a range or a tag. No flag, no address, nothing that a shell would read. */
const PACKAGE =
  /^((?:@[a-z0-9~][a-z0-9._~-]*\/)?[a-z0-9~][a-z0-9._~-]*)(?:@[A-Za-z0-9.^~+-]{1,64})?$/;
const TARBALL = /^(?!-)[\w@./\\ :~+-]+\.(?:tgz|tar\.gz)$/;

/** Runs npm in a folder. @throws RouseError `internal` with what npm says. */
async function runNpm(args: readonly string[], folder: string, io: CliIo): Promise<void> {
  const all = [...args, "--no-audit", "--no-fund", "--prefix", folder];
  try {
    await promisify(execFile)("npm", all, { cwd: folder, env: io.env });
  } catch (error) {
    const { code, stderr, message } = error as ExecFileException;
    const said = stderr?.replace(/^npm error ?/gm, "").trim();
    const reason = code === "ENOENT" ? "npm is not installed" : said || message;
    throw new RouseError({
      code: "internal",
      message: `npm could not ${args[0]} the package: ${reason}`,
    });
  }
}

/** The config file, and the list of plugins as it is written there. */
function readList(
  options: CommonOptions,
  io: CliIo,
): { file: string; path: string[]; entries: PluginEntry[] } {
  const file = findConfig(toLoadOptions(options, io));
  if (file === undefined || !existsSync(file))
    throw usage("there is no config file to write the plugin into: run `rouse init` first");
  const raw = readWritten(options, io);
  if (!raw)
    throw new RouseError({
      code: "config_invalid",
      message: `${file} is not valid JSON5: fix it first (\`rouse config validate\`)`,
    });
  const given = raw["plugins"];
  // The list itself, or beside the settings of plugins.
  const path = Array.isArray(given) || given === undefined ? ["plugins"] : ["plugins", "load"];
  const found = path.reduce<unknown>((value, name) => member(value, name), raw);
  return { file, path, entries: Array.isArray(found) ? (found as PluginEntry[]) : [] };
}

const nameOf = (entry: PluginEntry): string => (typeof entry === "string" ? entry : entry.package);

/** The name under which npm has saved a tarball, by the dependencies of the folder. */
function findSaved(tarball: string, folder: string): string | undefined {
  const { dependencies = {} } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as {
    dependencies?: Record<string, string>;
  };
  const isIt = (spec: string): boolean =>
    spec.startsWith("file:") && resolve(folder, spec.slice("file:".length)) === tarball;
  return Object.entries(dependencies).find(([, spec]) => isIt(spec))?.[0];
}

async function add(io: CliIo, options: CommonOptions, given: string) {
  const asPackage = PACKAGE.exec(given);
  if (!asPackage && !TARBALL.test(given))
    throw usage(
      `"${given.slice(0, 80)}" is neither a package (\`name\`, \`name@version\`) nor a path of a .tgz file`,
    );
  const { file, path, entries } = readList(options, io);
  const folder = dirname(file);
  const isTarball = TARBALL.test(given);
  const tarball = resolve(io.cwd, given);
  if (isTarball && !existsSync(tarball)) throw noSuch(`there is no file ${tarball}`);
  await runNpm(["install", "--save-exact", isTarball ? tarball : given], folder, io);
  const name = isTarball ? findSaved(tarball, folder) : asPackage?.[1];
  const { version, integrity } =
    (name === undefined ? undefined : readInstalled(name, folder)) ?? {};
  if (name === undefined || version === undefined || integrity === undefined) {
    const message =
      "npm has installed the package and recorded no version or no integrity for it: nothing was added to the config";
    throw new RouseError({ code: "internal", message });
  }
  const pinned = { package: name, version, integrity };
  const at = entries.findIndex((entry) => nameOf(entry) === name);
  await editConfigFile(file, [{ path: [...path, at < 0 ? entries.length : at], value: pinned }]);
  return { file, plugin: pinned };
}

const list = listing({
  about: "plugins and where they come from",
  examples: ["rouse plugins"],
  ask: ({ api }) => read(api.plugins.$get()),
  rows: ({ plugins: all }) => all,
  columns: [
    "id",
    ["channel", ({ channel }) => (channel ? "yes" : null)],
    ["configured", ({ configured }) => (configured ? "yes" : null)],
    "origin",
  ],
});

export const pluginsCommand: Noun = {
  list,
  commands: [
    answering({
      usage: "add <package>",
      about: "install a plugin with npm beside the config, and pin its version and content there",
      examples: [
        "rouse plugins add rouse-plugin-acme",
        "rouse plugins add rouse-plugin-acme@1.2.3",
        "rouse plugins add ./rouse-plugin-acme-1.2.3.tgz",
      ],
      answer: add,
      print({ file, plugin }, io) {
        io.out(
          `Added ${plugin.package} ${plugin.version} to ${relative(io.cwd, file)}, with the integrity that npm recorded.\n`,
        );
        io.out(
          "Its README says which section of the config it needs. `rouse config validate` checks the result.\n",
        );
      },
    }),
  ],
};
