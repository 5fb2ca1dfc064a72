import { readEnvironmentProviders } from "../config/providers.ts";
import { BUILTIN_PLUGINS } from "../gateway/snapshot.ts";
import { getSetup, type Presets } from "./shipped-presets.ts";
import type { SetupQuestions } from "../contract/define.ts";
import type { CatalogEntry } from "../plugin/locations.ts";
import type { CliIo } from "./io.ts";
import type { Prompts } from "./prompts.ts";

/** A channel that was chosen, with the answers to its questions. A secret is kept in a file of its own. */
export interface ChosenChannel {
  id: string;
  fields: { name: string; value: string; secret: boolean }[];
  allowFrom: string[];
  /** The recipient if none is named; empty: none. */
  to: string;
}

/** A model, and how its provider is reached. */
export interface ChosenModel {
  /** `<provider>/<model>`. */
  ref: string;
  type: string;
  baseUrl?: string;
  /** Kept in a file; undefined if a variable of the environment has it, or none is needed. */
  key?: string;
}

/** What the setup is made of: from flags, or from questions. */
export interface Answers {
  presets: string[];
  /** Secrets that senders have shown, by preset. */
  secrets: Record<string, string>;
  channels: ChosenChannel[];
  model: ChosenModel | undefined;
  port: number | undefined;
  publicUrl: string | undefined;
  /** The variable that holds the hook token; undefined keeps it in the state folder. */
  tokenEnv: string | undefined;
}

/** Which questions a flag has answered. */
export type AnsweredOptions = Partial<Record<"preset" | "channel" | "model", boolean>>;

export type AskableChannel = CatalogEntry & { setupQuestions: SetupQuestions };

const LOCAL_SERVERS = [
  { name: "Ollama", baseUrl: "http://127.0.0.1:11434/v1" },
  { name: "LM Studio", baseUrl: "http://127.0.0.1:1234/v1" },
];
const PROBE_MS = 300;

/** The channels that can be set up by answering questions. */
export function getAskableChannels(catalog: readonly CatalogEntry[]): AskableChannel[] {
  return catalog.filter((entry): entry is AskableChannel => entry.setupQuestions !== undefined);
}

/** A channel by its flag alone: secrets come from the variables that the catalog names; the rest is left to be filled in. */
export function withoutQuestions(
  { id, setupQuestions: setup }: AskableChannel,
  to: string,
): ChosenChannel {
  const fields = setup.fields.map(({ name, env, value }) => ({
    name,
    value: env === undefined ? (value ?? "") : `\${${env}}`,
    secret: false,
  }));
  return { id, fields, allowFrom: [], to };
}

async function askChannel(
  { id, setupQuestions: setup }: AskableChannel,
  prompts: Prompts,
  io: CliIo,
): Promise<ChosenChannel> {
  await prompts.note(setup.where, setup.name);
  const fields: ChosenChannel["fields"] = [];
  for (const { name, ask, env, value } of setup.fields) {
    if (env !== undefined && io.env[env]) fields.push({ name, value: `\${${env}}`, secret: false });
    else if (env !== undefined)
      fields.push({ name, value: await prompts.password({ message: ask }), secret: true });
    else
      fields.push({
        name,
        value: await prompts.text({
          message: ask,
          ...(value === undefined ? {} : { initialValue: value }),
        }),
        secret: false,
      });
  }
  const owner = await prompts.text({
    message: `Who may write to the agent there? ${setup.owner}; empty: no senders`,
    defaultValue: "",
  });
  const allowFrom = owner.split(/[\s,]+/).filter((entry) => entry !== "");
  const message = "Who gets the replies? A person, a group or a room there; empty: decide later";
  const to = await prompts.text({ message, initialValue: allowFrom[0] ?? "", defaultValue: "" });
  return { id, fields, allowFrom, to: to.trim() };
}

/** Model servers on this machine: offered, never chosen without a question. */
async function localServers(
  fetcher: typeof fetch,
): Promise<{ name: string; baseUrl: string; models: string[] }[]> {
  const found = await Promise.all(
    LOCAL_SERVERS.map(async ({ name, baseUrl }) => {
      try {
        const answer = await fetcher(`${baseUrl}/models`, {
          signal: AbortSignal.timeout(PROBE_MS),
        });
        const { data } = (await answer.json()) as { data?: { id?: unknown }[] };
        return [
          {
            name,
            baseUrl,
            models: (data ?? []).flatMap((model) =>
              typeof model.id === "string" ? [model.id] : [],
            ),
          },
        ];
      } catch {
        return [];
      }
    }),
  );
  return found.flat().filter((server) => server.models.length > 0);
}

async function askModel(prompts: Prompts, io: CliIo): Promise<ChosenModel | undefined> {
  const hasKey = (keys: readonly string[]): boolean => keys.some((key) => io.env[key]);
  const local = (await localServers(fetch)).flatMap(({ name, baseUrl, models }) =>
    models.slice(0, 8).map((model) => ({
      label: `${model} on ${name}`,
      model: { ref: `local/${model}`, type: "openai-compatible" as const, baseUrl },
    })),
  );
  const providers = readEnvironmentProviders(BUILTIN_PLUGINS);
  const choices = [
    ...providers.map(({ name, title, variables }) => ({
      value: name,
      label: `${title}${hasKey(variables) ? " (its key is in the environment)" : ""}`,
    })),
    ...local.map(({ label }, index) => ({ value: `local ${index}`, label })),
    { value: "other", label: "another server that speaks OpenAI's API" },
    { value: "none", label: "none yet: replies only repeat what came in" },
  ];
  const chosen = await prompts.select({ message: "Which model answers?", options: choices });
  const server = local[Number(/^local (\d+)$/.exec(chosen)?.[1])];
  if (server) return server.model;
  const known = providers.find(({ name }) => name === chosen);
  if (!known && chosen !== "other") return undefined;
  const baseUrl = known
    ? undefined
    : await prompts.text({
        message: "Base address of the server, such as https://api.example.com/v1",
      });
  const model = await prompts.text({
    message: "Model",
    ...(known ? { initialValue: known.defaultModel } : {}),
  });
  const key =
    known && hasKey(known.variables) ? "" : await prompts.password({ message: "API key" });
  return {
    ref: `${known?.name ?? "custom"}/${model}`,
    type: known?.type ?? "openai-compatible",
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(key === "" ? {} : { key }),
  };
}

/** Asks for what no flag has answered. */
export async function askQuestions(
  answers: Answers,
  answered: AnsweredOptions,
  known: readonly AskableChannel[],
  presets: Presets,
  prompts: Prompts,
  io: CliIo,
): Promise<void> {
  if (!answered.preset) {
    const options = [...presets.keys()].map((value) => ({ value, label: value }));
    answers.presets = await prompts.multiselect({
      message: "Whose webhooks? (presets; none: only mappings of your own)",
      options,
    });
  }
  for (const preset of answers.presets) {
    const { secret, where } = getSetup(presets, preset);
    if (secret !== "shown" || answers.secrets[preset] !== undefined) continue;
    const given = await prompts.password({
      message: `The secret that ${preset} shows (${where ?? "its webhook settings"}); empty: later`,
    });
    if (given !== "") answers.secrets[preset] = given;
  }
  if (!answered.channel) {
    const options = known.map(({ id, setupQuestions }) => ({
      value: id,
      label: setupQuestions.name,
    }));
    const chosen = await prompts.multiselect({
      message: "Where do replies go? (none: this terminal)",
      options,
    });
    for (const entry of known.filter(({ id }) => chosen.includes(id)))
      answers.channels.push(await askChannel(entry, prompts, io));
  }
  if (!answered.model) answers.model = await askModel(prompts, io);
}
