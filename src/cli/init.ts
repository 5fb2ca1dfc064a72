import { existsSync, readFileSync, realpathSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { editText } from "../config/edit.ts";
import { findConfig, loadConfig } from "../config/load.ts";
import { readEnvironmentProviders } from "../config/providers.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import { replaceFile } from "../core/replace-file.ts";
import { getSetup, loadShippedPresets, type Presets } from "./shipped-presets.ts";
import { readCatalog } from "../plugin/locations.ts";
import { BUILTIN_PLUGINS, checkSnapshot } from "../gateway/snapshot.ts";
import { configExitCode, reportError, usage } from "./failure.ts";
import {
  FIRST_CONFIG,
  planChanges,
  getSecretFile,
  type AddedPreset,
  type InitFolders,
  writeFiles,
} from "./init-files.ts";
import {
  askQuestions,
  getAskableChannels,
  withoutQuestions,
  type Answers,
  type ChosenModel,
  type AskableChannel,
} from "./init-questions.ts";
import { testSetup } from "./init-test.ts";
import { SYSTEM, type CliIo } from "./io.ts";
import { pairs, readInput } from "./options.ts";
import { rawConfig } from "./settings.ts";
import { shellWord } from "./text.ts";

interface Options {
  preset?: string[];
  secretFile?: Record<string, string>;
  channel?: string[];
  to?: string;
  provider?: string;
  keyFile?: string;
  model?: string;
  baseUrl?: string;
  port?: string;
  publicUrl?: string;
  tokenEnv?: string;
  yes?: boolean;
  force?: boolean;
  test: boolean;
}

const readSecret = async (file: string, io: CliIo): Promise<string> =>
  (await readInput(file, io)).toString("utf8").trim();

/** The model that the flags name; undefined if they name none. */
async function readModel(
  { provider, model, baseUrl, keyFile }: Options,
  io: CliIo,
): Promise<ChosenModel | undefined> {
  if (provider === undefined && model === undefined) {
    if (keyFile !== undefined) throw usage("--key-file: say whose key it is with --provider");
    return undefined;
  }
  const [first = "", ...rest] = (model ?? "").split("/");
  const id = provider ?? first;
  const providers = readEnvironmentProviders(BUILTIN_PLUGINS);
  const known = providers.find((one) => one.name === id);
  const name = provider !== undefined && first !== provider ? model : rest.join("/");
  if (!known && provider !== undefined && baseUrl === undefined)
    throw usage(
      `--provider: use ${providers.map((one) => one.name).join(", ")}, or another name with --base-url`,
    );
  if (!known && !name) throw usage("--model: name the model of that provider");
  if (
    known &&
    baseUrl === undefined &&
    provider !== undefined &&
    keyFile === undefined &&
    !known.variables.some((key) => io.env[key])
  )
    throw usage(
      `--provider ${id}: give its key with --key-file (- reads standard input), or set ${known.variables[0]}`,
    );
  return {
    ref: `${id}/${name || known?.defaultModel}`,
    type: known && baseUrl === undefined ? known.type : "openai-compatible",
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(keyFile === undefined ? {} : { key: await readSecret(keyFile, io) }),
  };
}

/** What the flags say. */
async function readFlags(
  options: Options,
  known: readonly AskableChannel[],
  presets: Presets,
  io: CliIo,
): Promise<Answers> {
  if (options.port !== undefined && !/^\d{1,5}$/.test(options.port))
    throw usage("--port: must be a number");
  const ids = known.map(({ id }) => id);
  const channel = options.channel?.find((name) => !ids.includes(name));
  if (channel !== undefined)
    throw usage(`--channel: there is no "${channel}"; use ${ids.join(", ")}`);
  const preset = options.preset?.find((name) => !presets.has(name));
  if (preset !== undefined)
    throw usage(`--preset: there is no "${preset}".${didYouMean(preset, presets.keys())}`);
  const secrets: Record<string, string> = {};
  for (const [name, file] of Object.entries(options.secretFile ?? {}))
    secrets[name] = await readSecret(file, io);
  return {
    presets: options.preset ?? [],
    secrets,
    channels: known
      .filter(({ id }) => options.channel?.includes(id))
      .map((entry) => withoutQuestions(entry, options.to ?? "")),
    model: await readModel(options, io),
    port: options.port === undefined ? undefined : Number(options.port),
    publicUrl: options.publicUrl,
    tokenEnv: options.tokenEnv,
  };
}

/** Says where a preset's webhooks are registered and with which secret. */
function printSender(
  preset: string,
  { at, place }: { at: string; place: InitFolders },
  io: CliIo,
): void {
  const { where, secret } = getSetup(place.presets, preset);
  io.out(`\nRegister at ${preset}${where === undefined ? "" : `: ${where}`}\n  URL     ${at}\n`);
  const file = getSecretFile(place, preset);
  if (secret === undefined) io.out("  header  Authorization: Bearer <the hook token>\n");
  else if (secret === "chosen")
    io.out(`  secret  ${readFileSync(file, "utf8").trim()}  (kept in ${file})\n`);
  else if (secret === "shown")
    io.out(
      `  secret  the sender shows one: write it into ${file}; until then its requests are refused\n`,
    );
  else io.out("  secret  the sender posts one to that URL: `rouse doctor` shows it\n");
}

/** How senders on the internet reach a gateway on this machine. */
function printTunnels(port: number, io: CliIo): void {
  io.out(
    `\nSenders on the internet need a public address. One of these gives you one, for as long as it runs:\n`,
  );
  for (const line of [
    `ngrok http ${port}`,
    `cloudflared tunnel --url http://127.0.0.1:${port}`,
    `tailscale funnel ${port}`,
  ])
    io.out(`  ${line}\n`);
}

/** Writes the config, new or with what is added to it; returns the presets that are new in it. */
async function writeConfig(
  file: string,
  answers: Answers,
  place: InitFolders,
  isNew: boolean,
  io: CliIo,
): Promise<AddedPreset[]> {
  const text = isNew ? FIRST_CONFIG : readFileSync(file, "utf8");
  const raw = isNew ? {} : ((await rawConfig({ config: file }, io))?.raw ?? {});
  const { changes, added } = await planChanges(raw, answers, place, isNew);
  const edited = editText(text, changes);
  if (!isNew && edited === text) io.out(`${file} has all of that already\n`);
  else {
    await replaceFile(
      existsSync(file) ? realpathSync(file) : file,
      edited,
      isNew ? { mode: 0o600 } : {},
    );
    io.out(`${isNew ? "Wrote" : "Changed"} ${file}\n`);
  }
  return added;
}

function printIssues(issues: readonly Issue[], what: string, io: CliIo): void {
  io.err(`${what}\n`);
  for (const { path, message } of issues) io.err(`  ${path === "" ? "" : `${path}: `}${message}\n`);
  io.exitCode = configExitCode(issues);
}

async function init(dir: string, options: Options, io: CliIo): Promise<void> {
  const folder = resolve(io.cwd, dir);
  const file = findConfig({ cwd: folder, env: {} }) ?? join(folder, "rouse.json5");
  const isNew = !existsSync(file) || options.force === true;
  const present = await loadConfig({ cwd: folder, env: io.env, ...(isNew ? {} : { file }) });
  if (!isNew && !present.ok)
    return printIssues(
      present.issues,
      `${file} has problems; nothing was changed (--force writes a new one):`,
      io,
    );
  const known = getAskableChannels(readCatalog(BUILTIN_PLUGINS));
  const presets = await loadShippedPresets();
  const answers = await readFlags(options, known, presets, io);
  const answered = {
    preset: options.preset !== undefined,
    channel: options.channel !== undefined,
    model: answers.model !== undefined,
  };
  if (!options.yes && io.prompts)
    await askQuestions(answers, answered, known, presets, io.prompts, io);
  const place: InitFolders = {
    folder,
    presets,
    stateDir:
      present.ok && !isNew
        ? present.stateDir
        : resolve(folder, io.env["ROUSE_STATE_DIR"] || ".rouse"),
  };
  await mkdir(folder, { recursive: true });
  const added = await writeConfig(file, answers, place, isNew, io);
  const written = await writeFiles(place);
  if (written.length > 0) io.out(`Wrote ${written.join(", ")} beside it\n`);
  const checked = await checkSnapshot({ ...SYSTEM, configFile: file, cwd: folder, env: io.env });
  if (!checked.ok)
    return printIssues(checked.issues, "the config needs a change before the gateway starts:", io);
  const loaded = await loadConfig({ cwd: folder, env: io.env, file });
  if (!loaded.ok) return;
  if (options.test && (isNew || added.length > 0)) {
    try {
      await testSetup(file, added, io);
    } catch (error) {
      io.exitCode = reportError(error, io, false);
    }
  }
  const { gateway, hooks } = loaded.config;
  const base = gateway.publicUrl?.replace(/\/$/, "");
  if (added.length > 0 && base === undefined) printTunnels(gateway.port, io);
  for (const { preset, path } of added)
    printSender(
      preset,
      { at: `${base ?? "https://<your public address>"}${hooks.path}/${path}`, place },
      io,
    );
  const config =
    folder === io.cwd && io.program?.startsWith("npm ") !== true ? "" : ` -c ${shellWord(file)}`;
  io.out(`\nStart it:\n  ${io.program ?? "rouse"} start${config}\n`);
}

/** `rouse init`: makes a setup or adds to one, with a flag for every question. */
export function register(program: Command, io: CliIo): void {
  program
    .command("init")
    .description(
      "make a setup that works, or add to one: senders, channels, a model; ends with a test",
    )
    .argument("[dir]", "the config's folder", ".")
    .option("--preset <name...>", "senders to receive from; a secret is made for each that signs")
    .option(
      "--secret-file <preset=file>",
      "a secret that the sender has shown; - reads standard input (repeatable)",
      pairs,
    )
    .option(
      "--channel <name...>",
      "channels for replies; secrets come from the variables that the config then names",
    )
    .option("--to <recipient>", "who gets the replies on the channel")
    .option(
      "--provider <name>",
      `${readEnvironmentProviders(BUILTIN_PLUGINS)
        .map(({ name }) => name)
        .join(", ")}, or another name with --base-url`,
    )
    .option(
      "--key-file <file>",
      "the provider's key, kept in the state folder; - reads standard input",
    )
    .option("--model <name>", "the model, `<provider>/<model>`")
    .option("--base-url <url>", "an OpenAI-compatible server for that model's provider")
    .option("--port <n>", "port to listen on (default 7420)")
    .option("--public-url <url>", "the address under which senders reach the gateway")
    .option("--token-env <name>", "take the hook token from this variable instead of a file")
    .option("-y, --yes", "ask nothing, use the defaults")
    .option("--no-test", "do not post a test event")
    .option("--force", "write a new config over the one that is there")
    .addHelpText(
      "after",
      "\nExamples:\n  rouse init\n  rouse init --yes --preset NAME --provider openai --key-file key.txt\n  rouse init --yes --preset NAME --model local/qwen3 --base-url http://127.0.0.1:11434/v1\n",
    )
    .action((dir: string, options: Options) => init(dir, options, io));
}
