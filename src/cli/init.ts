import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { newToken } from "../core/secret.ts";
import { PRESETS_DIR, presetNames } from "../mapping/presets.ts";
import { readCatalog } from "../plugin/sources.ts";
import { BUILTIN_PLUGINS, checkSnapshot } from "../snapshot.ts";
import { askable, askChannel, renderChannels, withoutQuestions, type ChosenChannel, type Known } from "./init-channels.ts";
import { EXIT, type CliIo } from "./io.ts";
import { shellWord } from "./text.ts";

interface Options {
  dir?: string;
  model?: string;
  baseUrl?: string;
  port?: string;
  preset?: string[];
  channel?: string[];
  yes?: boolean;
  force?: boolean;
  tokenEnv?: string;
}

interface Answers {
  model: string | undefined;
  baseUrl: string | undefined;
  port: number;
  presets: string[];
  channels: ChosenChannel[];
  /** The variable that holds the hook token; undefined makes a file. */
  tokenEnv: string | undefined;
}

const KEYS: readonly [string, string][] = [
  ["OPENAI_API_KEY", "OpenAI"],
  ["ANTHROPIC_API_KEY", "Anthropic"],
  ["GEMINI_API_KEY", "Google"],
  ["GOOGLE_GENERATIVE_AI_API_KEY", "Google"],
];
const LOCAL_SERVERS = [
  { name: "Ollama", baseUrl: "http://127.0.0.1:11434/v1" },
  { name: "LM Studio", baseUrl: "http://127.0.0.1:1234/v1" },
];
const PROBE_MS = 300;

/** Model servers on this machine: only offered, never chosen by themselves. */
async function localServers(fetcher: typeof fetch): Promise<{ name: string; baseUrl: string; models: string[] }[]> {
  const found = await Promise.all(
    LOCAL_SERVERS.map(async ({ name, baseUrl }) => {
      try {
        const answer = await fetcher(`${baseUrl}/models`, { signal: AbortSignal.timeout(PROBE_MS) });
        const { data } = (await answer.json()) as { data?: { id?: unknown }[] };
        return [{ name, baseUrl, models: (data ?? []).flatMap((model) => (typeof model.id === "string" ? [model.id] : [])) }];
      } catch {
        return [];
      }
    }),
  );
  return found.flat().filter((server) => server.models.length > 0);
}

/** The config as text, with comments that teach. */
function renderConfig({ model, baseUrl, port, presets, tokenEnv }: Answers, channels: readonly string[]): string {
  const token = tokenEnv === undefined ? '{ file: "hook-token" }' : `"\${${tokenEnv}}"`;
  const [provider = "", ...name] = (model ?? "").split("/");
  const lines = [
    "// Rouse's config. `rouse config validate` checks it, `rouse config schema` prints its schema, docs/config.md explains each key.",
    "{",
    `  gateway: { port: ${port} },`,
    "  hooks: {",
    "    enabled: true,",
    "    // What callers send as `Authorization: Bearer …`.",
    `    token: ${token},`,
    `    presets: ${JSON.stringify(presets)},`,
    "    // Your own mappings; also every file in ./mappings. Modules for `transform` go to ./transforms.",
    "    mappings: [",
    "      {",
    '        id: "example",',
    '        match: { path: "example" },',
    '        name: "Example",',
    '        messageTemplate: "Something happened: {{title}}",',
    "      },",
    "    ],",
    "  },",
  ];
  lines.push(...channels);
  if (model !== undefined) lines.push(`  agents: { defaults: { model: ${JSON.stringify(model)} } },`);
  if (baseUrl !== undefined && name.length > 0)
    lines.push(
      `  models: { providers: { ${JSON.stringify(provider)}: { type: "openai-compatible", baseUrl: ${JSON.stringify(baseUrl)} } } },`,
    );
  return `${lines.join("\n")}\n}\n`;
}

async function ask(options: Options, known: readonly Known[], io: CliIo): Promise<Answers | undefined> {
  const answers: Answers = {
    model: options.model,
    baseUrl: options.baseUrl,
    port: Number(options.port ?? 7420),
    presets: options.preset ?? [],
    channels: known.filter(({ id }) => options.channel?.includes(id)).map(withoutQuestions),
    tokenEnv: options.tokenEnv,
  };
  if (options.yes || !io.terminal.in || !io.terminal.out) return answers;
  const { cancel, isCancel, multiselect, select, text } = await import("@clack/prompts");
  const stop = (): undefined => {
    cancel("Nothing was written.");
    return undefined;
  };
  if (options.port === undefined) {
    const port = await text({
      message: "Port to listen on",
      initialValue: "7420",
      validate: (value) => (/^\d{1,5}$/.test(value ?? "") ? undefined : "a number"),
    });
    if (isCancel(port)) return stop();
    answers.port = Number(port);
  }
  if (options.model === undefined) {
    const keys = KEYS.filter(([key]) => io.env[key]);
    const servers = await localServers(fetch);
    const choices = [
      {
        value: "",
        label:
          keys.length > 0 ? `from the environment (${keys.map(([, name]) => name).join(", ")})` : "none yet: replies only say what came in",
      },
      ...servers.flatMap((server) =>
        server.models.slice(0, 8).map((model) => ({ value: `${server.baseUrl} ${model}`, label: `${model} on ${server.name}` })),
      ),
    ];
    const chosen = await select({ message: "Which model answers?", options: choices });
    if (isCancel(chosen)) return stop();
    const [baseUrl, model] = chosen.split(" ");
    if (baseUrl && model) Object.assign(answers, { baseUrl, model: `local/${model}` });
  }
  if (options.preset === undefined) {
    const presets = await multiselect({
      message: "Presets to enable",
      options: presetNames(PRESETS_DIR).map((value) => ({ value, label: value })),
      required: false,
    });
    if (isCancel(presets)) return stop();
    answers.presets = presets;
  }
  if (options.channel === undefined) {
    const choices = known.map(({ id, setup }) => ({ value: id, label: setup.name }));
    const channels = await multiselect({ message: "Channels for replies (none: this terminal)", options: choices, required: false });
    if (isCancel(channels)) return stop();
    for (const entry of known.filter(({ id }) => channels.includes(id))) {
      const chosen = await askChannel(entry, io);
      if (!chosen) return stop();
      answers.channels.push(chosen);
    }
  }
  return answers;
}

/** `rouse init`: a wizard, with a flag for every question. */
export function registerInit(program: Command, io: CliIo): void {
  program
    .command("init")
    .description("make a config, asking what it needs to know")
    .argument("[dir]", "where", ".")
    .option("--model <name>", "the model, `<provider>/<model>`")
    .option("--base-url <url>", "an OpenAI-compatible server for that model's provider")
    .option("--port <n>", "port to listen on (default 7420)")
    .option("--preset <name...>", "presets to enable")
    .option("--channel <name...>", "channels for replies; secrets come from the variables that the config then names")
    .option("--token-env <name>", "take the hook token from this variable instead of a file")
    .option("-y, --yes", "ask nothing, use the defaults")
    .option("--force", "overwrite a config that is there")
    .addHelpText(
      "after",
      "\nExamples:\n  rouse init\n  rouse init --yes --preset NAME --model local/qwen3 --base-url http://127.0.0.1:11434/v1\n",
    )
    .action(async (dir: string, options: Options) => {
      const folder = resolve(io.cwd, dir);
      const file = join(folder, "rouse.json5");
      if (existsSync(file) && !options.force) {
        io.err(`${file} is there already; --force overwrites it\n`);
        io.exitCode = EXIT.failure;
        return;
      }
      if (options.port !== undefined && !/^\d{1,5}$/.test(options.port)) {
        io.err("--port: must be a number\n");
        io.exitCode = EXIT.usage;
        return;
      }
      const known = askable(readCatalog(BUILTIN_PLUGINS));
      const unknown = options.channel?.find((name) => !known.some(({ id }) => id === name));
      if (unknown !== undefined) {
        io.err(`--channel: there is no "${unknown}"; use ${known.map(({ id }) => id).join(", ")}\n`);
        io.exitCode = EXIT.usage;
        return;
      }
      const answers = await ask(options, known, io);
      if (!answers) return;
      for (const sub of ["mappings", "transforms"]) await mkdir(join(folder, sub), { recursive: true });
      if (answers.tokenEnv === undefined) await writeFile(join(folder, "hook-token"), `${newToken()}\n`, { mode: 0o600 });
      await writeFile(file, renderConfig(answers, await renderChannels(answers.channels, folder)), { mode: 0o600 });
      io.out(`Wrote ${file}\n`);
      const checked = await checkSnapshot({ configFile: file, cwd: folder, env: io.env });
      const at = folder === io.cwd ? "" : `cd ${shellWord(folder)}\n  `;
      if (checked.ok) return io.out(`\nNext:\n  ${at}rouse start\n`);
      io.err("what you chose needs a change before it starts:\n");
      for (const issue of checked.issues) io.err(`  ${issue.path}: ${issue.message}\n`);
      io.exitCode = EXIT.config;
    });
}
