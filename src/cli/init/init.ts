import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { editText } from "../../config/edit.ts";
import { findConfig, loadConfig } from "../../config/load.ts";
import { readEnvironmentProviders } from "../../config/providers.ts";
import { didYouMean } from "../../config/suggest.ts";
import type { Issue } from "../../core/errors.ts";
import { replaceFile } from "../../core/replace-file.ts";
import { getSetup, loadShippedPresets, type Presets } from "./shipped-presets.ts";
import { BUILTIN_PLUGINS, readCatalog } from "../../plugin/locations.ts";
import { checkSnapshot } from "../../gateway/validate-config.ts";
import { findFreePort } from "../../http/listen.ts";
import { readGateway } from "../../store/lock.ts";
import { doing, type Given } from "../command.ts";
import { configExitCode, reportError, usage } from "../failure.ts";
import {
  FIRST_CONFIG,
  isUnfinished,
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
  type AskedParts,
} from "./init-questions.ts";
import { testSetup } from "./init-test.ts";
import type { CliIo } from "../io.ts";
import { readSecret } from "../options.ts";
import { rawConfig, toSnapshotOptions } from "../settings.ts";
import { shellWord } from "../text.ts";

const INIT_OPTIONS = {
  "--preset <name...>": "senders to receive from; a secret is made for each that signs",
  "--secret-file <preset=file>": {
    about: "a secret that the sender has shown; - reads standard input (repeatable)",
    repeat: "pairs",
  },
  "--channel <name...>":
    "channels for replies; secrets come from the variables that the config then names",
  "--to <recipient>": "who gets the replies on the channel",
  "--provider <name>": `${readEnvironmentProviders(BUILTIN_PLUGINS)
    .map(({ name }) => name)
    .join(", ")}, or another name with --base-url`,
  "--key-file <file>": "the provider's key, kept in the state folder; - reads standard input",
  "--model <name>": "the model, `<provider>/<model>`",
  "--base-url <url>": "an OpenAI-compatible server for that model's provider",
  "--port <n>": "port to listen on (default 7420)",
  "--public-url <url>": "the address under which senders reach the gateway",
  "--token-env <name>": "take the hook token from this variable instead of a file",
  "-y, --yes": "ask nothing, use the defaults",
  "--no-test": "do not post a test event",
  "--force": "write a new config over the one that is there",
} as const;
type Options = Given<typeof INIT_OPTIONS>;

const DEFAULT_PORT = 7420;

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
    keyFile === undefined &&
    !known.variables.some((key) => io.env[key])
  )
    throw usage(
      `${provider === undefined ? `--model ${model}` : `--provider ${id}`}: give its key with --key-file (- reads standard input), or set ${known.variables[0]}`,
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
    throw usage(
      `--preset: there is no "${preset}"; \`rouse presets\` lists them.${didYouMean(preset, presets.keys())}`,
    );
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
    isRepeated: false,
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

/**
 * Writes the config, new or with what is added to it, if a gateway starts with it. Returns the presets that are new in it; undefined if
 * nothing was written.
 */
async function writeConfig(
  file: string,
  answers: Answers,
  place: InitFolders,
  isNew: boolean,
  io: CliIo,
): Promise<AddedPreset[] | undefined> {
  const text = isNew ? FIRST_CONFIG : readFileSync(file, "utf8");
  const raw = isNew ? {} : ((await rawConfig({ config: file }, io))?.raw ?? {});
  const { changes, added } = await planChanges(raw, answers, place, isNew);
  const edited = editText(text, changes);
  const files = toSnapshotOptions({ config: file }, { ...io, cwd: place.folder });
  const checked = await checkSnapshot({ ...files, texts: new Map([[file, edited]]) });
  if (!checked.ok) {
    printIssues(checked.issues, "nothing was written: the gateway would not start with that:", io);
    return undefined;
  }
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

/** What is set up: all of it, or what the argument names. */
interface Scope {
  folder: string;
  channel?: AskableChannel;
  preset?: string;
  model?: boolean;
}

/**
 * The argument is a folder, or the name of a channel, a preset or a provider that is set up again, or added; or `model`.
 * @throws RouseError `usage` for a file, and for a word that is nearly such a name: a folder would be made of it.
 */
function readScope(
  name: string,
  known: readonly AskableChannel[],
  presets: Presets,
  { cwd }: CliIo,
): Scope {
  const folder = resolve(cwd, name);
  if (existsSync(folder)) {
    if (!statSync(folder).isDirectory()) throw usage(`${name} is a file: name a folder`);
    return { folder };
  }
  const channel = known.find(({ id }) => id === name);
  if (channel) return { folder: cwd, channel };
  if (presets.has(name)) return { folder: cwd, preset: name };
  const providers = readEnvironmentProviders(BUILTIN_PLUGINS).map((provider) => provider.name);
  if (name === "model" || providers.includes(name)) return { folder: cwd, model: true };
  const hint = didYouMean(name, [...presets.keys(), ...known.map(({ id }) => id), ...providers]);
  if (hint !== "" && !/[/\\]/.test(name))
    throw usage(
      `"${name}" is no sender, channel or provider.${hint} A new folder is written ./${name}`,
    );
  return { folder };
}

/** What the questions are about: what no flag has answered, or what the argument names. */
function chooseQuestions(
  { channel, preset, model = false }: Scope,
  options: Options,
  answers: Answers,
): AskedParts {
  if (channel) return { presets: false, channels: [channel.id], model: false };
  if (preset !== undefined || model) return { presets: false, channels: false, model };
  return {
    presets: options.preset === undefined,
    channels: options.channel === undefined,
    model: answers.model === undefined,
  };
}

async function setUp(name: string, options: Options, io: CliIo): Promise<void> {
  const known = getAskableChannels(readCatalog(BUILTIN_PLUGINS));
  const presets = await loadShippedPresets();
  const scope = readScope(name, known, presets, io);
  const { folder } = scope;
  const file = findConfig({ cwd: folder, env: {} }) ?? join(folder, "rouse.json5");
  const isNew = !existsSync(file) || options.force === true;
  const present = await loadConfig({ cwd: folder, env: io.env, ...(isNew ? {} : { file }) });
  const prompts = options.yes ? undefined : io.prompts;
  if (!isNew && !present.ok && !present.rest)
    return printIssues(
      present.issues,
      `${file} has problems; nothing was changed (--force writes a new one):`,
      io,
    );
  const answers = await readFlags(options, known, presets, io);
  if (scope.preset !== undefined) {
    answers.presets = [scope.preset];
    answers.isRepeated = true;
  }
  if (prompts) {
    const asked = chooseQuestions(scope, options, answers);
    await askQuestions(answers, asked, known, presets, prompts, io);
  } else if (scope.channel && options.channel === undefined)
    answers.channels.push(withoutQuestions(scope.channel, options.to ?? ""));
  const usual = present.ok ? present : present.rest;
  const place: InitFolders = {
    folder,
    presets,
    stateDir:
      usual && !isNew ? usual.stateDir : resolve(folder, io.env["ROUSE_STATE_DIR"] || ".rouse"),
  };
  if (isNew && answers.port === undefined && readGateway(place.stateDir) === undefined) {
    const free = await findFreePort("127.0.0.1", DEFAULT_PORT);
    if (free !== undefined && free !== DEFAULT_PORT) {
      io.out(`Port ${DEFAULT_PORT} is taken: the gateway will listen on ${free}\n`);
      answers.port = free;
    }
  }
  await mkdir(folder, { recursive: true });
  const added = await writeConfig(file, answers, place, isNew, io);
  if (!added) return;
  const written = await writeFiles(place);
  if (written.length > 0) io.out(`Wrote ${written.join(", ")} beside it\n`);
  for (const channel of answers.channels.filter(isUnfinished))
    io.out(
      `channels.${channel.id} is off until you fill in ${channel.fields.flatMap((field) => (field.value === "" ? [field.name] : [])).join(", ")} and take its \`enabled: false\` away; \`rouse init ${channel.id}\` asks for them\n`,
    );
  const loaded = await loadConfig({ cwd: folder, env: io.env, file });
  if (!loaded.ok) return;
  if (options.test && (isNew || added.length > 0 || scope.model === true))
    await testSetup(file, added, io).catch((error: unknown) => {
      io.exitCode = reportError(error, io, false);
      io.err("  the set-up is written; `rouse init model` asks for another model or key\n");
    });
  const { gateway, hooks } = loaded.config;
  const base = gateway.publicUrl?.replace(/\/$/, "");
  if (added.length > 0 && base === undefined)
    io.out(
      `\nSenders on the internet need a public address. A tunnel gives one: ngrok http ${gateway.port}, or cloudflared tunnel --url http://127.0.0.1:${gateway.port}\n`,
    );
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

export const initCommand = doing({
  usage: "init [what]",
  about:
    "make a setup that works, or add to one: the config's folder, or a channel, sender or provider to add or to set up again; ends with a test",
  examples: [
    "rouse init",
    "rouse init NAME",
    "rouse init --yes --preset NAME --provider openai --key-file key.txt",
    "rouse init --yes --preset NAME --model local/qwen3 --base-url http://127.0.0.1:11434/v1",
  ],
  options: INIT_OPTIONS,
  config: false,
  run: (io, options, what) => setUp(what ?? ".", options, io),
});
