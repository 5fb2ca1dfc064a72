import { existsSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { findConfig, loadConfig } from "../../config/load.ts";
import type { Config } from "../../config/schema/index.ts";
import { findFreePort } from "../../http/listen.ts";
import { readGateway } from "../../store/lock.ts";
import { doing } from "../command.ts";
import { reportError } from "../failure.ts";
import { getSetup, loadShippedPresets, type Presets } from "../hooks/find-presets.ts";
import type { CliIo } from "../io.ts";
import { configInvalid } from "../settings.ts";
import { shellWord } from "../text.ts";
import {
  getSecretFile,
  isUnfinished,
  writeConfig,
  writeFiles,
  type AddedPreset,
  type InitFolders,
} from "./init-files.ts";
import { INIT_OPTIONS, readFlags, type InitOptions } from "./init-flags.ts";
import { askQuestions, type Answers } from "./init-questions.ts";
import { testSetup } from "./init-test.ts";

const DEFAULT_PORT = 7420;

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

/** Reads the answers: those of flags, and on a terminal those of questions. A config that is there is only asked about what flags name. */
async function readAnswers(
  options: InitOptions,
  presets: Presets,
  isNew: boolean,
  io: CliIo,
): Promise<Answers> {
  const answers = await readFlags(options, presets, io);
  const { preset, channel, provider, model, yes } = options;
  const isAll = isNew || [preset, channel, provider, model].every((flag) => flag === undefined);
  if (!yes && io.prompts)
    await askQuestions(answers, options, isAll, presets, { prompts: io.prompts, env: io.env });
  return answers;
}

/** Chooses another port for a new gateway if the default is taken. */
async function choosePort(answers: Answers, { stateDir }: InitFolders, io: CliIo): Promise<void> {
  if (answers.port !== undefined || readGateway(stateDir) !== undefined) return;
  const free = await findFreePort("127.0.0.1", DEFAULT_PORT);
  if (free === undefined || free === DEFAULT_PORT) return;
  io.out(`Port ${DEFAULT_PORT} is taken: the gateway will listen on ${free}\n`);
  answers.port = free;
}

/** Says where senders post to, and how the gateway is started. */
function printNext(
  file: string,
  added: readonly AddedPreset[],
  place: InitFolders,
  { gateway, hooks }: Config,
  io: CliIo,
): void {
  const base = gateway.publicUrl?.replace(/\/$/, "");
  if (added.length > 0 && base === undefined)
    io.out(
      `\nSenders on the internet need a public address. A tunnel gives one: ngrok http ${gateway.port}, or cloudflared tunnel --url http://127.0.0.1:${gateway.port}\n`,
    );
  for (const { preset, path } of added) {
    const at = `${base ?? "https://<your public address>"}${hooks.path}/${path}`;
    printSender(preset, { at, place }, io);
  }
  const isFound = place.folder === io.cwd && io.program?.startsWith("npm ") !== true;
  const config = isFound ? "" : ` -c ${shellWord(file)}`;
  io.out(`\nStart it:\n  ${io.program ?? "rouse"} start${config}\n`);
}

async function setUp(name: string, options: InitOptions, io: CliIo): Promise<void> {
  const folder = resolve(io.cwd, name);
  const presets = await loadShippedPresets();
  const file = findConfig({ cwd: folder, env: {} }) ?? join(folder, "rouse.json5");
  const isNew = !existsSync(file);
  const present = await loadConfig({ cwd: folder, env: io.env, ...(isNew ? {} : { file }) });
  const usual = present.ok ? present : present.rest;
  if (!isNew && !present.ok && !usual)
    throw configInvalid(present, "the config", "; nothing was changed");
  const answers = await readAnswers(options, presets, isNew, io);
  const ownState = resolve(folder, io.env["ROUSE_STATE_DIR"] || ".rouse");
  const stateDir = usual && !isNew ? usual.stateDir : ownState;
  const place: InitFolders = { folder, presets, stateDir };
  if (isNew) await choosePort(answers, place, io);
  await mkdir(folder, { recursive: true });
  const added = await writeConfig(file, answers, place, isNew, io);
  const written = await writeFiles(place);
  if (written.length > 0) io.out(`Wrote ${written.join(", ")} beside it\n`);
  for (const { id, fields } of answers.channels.filter(isUnfinished)) {
    const empty = fields.flatMap((field) => (field.value === "" ? [field.name] : []));
    io.out(
      `channels.${id} is off until you fill in ${empty.join(", ")} and take its \`enabled: false\` away; \`rouse init --channel ${id}\` asks for them\n`,
    );
  }
  const loaded = await loadConfig({ cwd: folder, env: io.env, file });
  if (!loaded.ok) return;
  if (options.test && (isNew || added.length > 0 || answers.model))
    await testSetup(file, added, io).catch((error: unknown) => {
      io.exitCode = reportError(error, io, false);
      io.err("  the set-up is written; `rouse init --provider NAME` takes another model or key\n");
    });
  printNext(file, added, place, loaded.config, io);
}

export const initCommand = doing({
  usage: "init [folder]",
  about:
    "make a setup that works, or add to one, or set up a channel, sender or provider of it again; ends with a test",
  examples: [
    "rouse init",
    "rouse init --channel NAME",
    "rouse init --yes --preset NAME --provider openai --key-file key.txt",
    "rouse init --yes --preset NAME --model local/qwen3 --base-url http://127.0.0.1:11434/v1",
  ],
  options: INIT_OPTIONS,
  config: false,
  run: (io, options, folder) => setUp(folder ?? ".", options, io),
});
