import type { z } from "zod";
import { readEnvironmentProviders } from "../../config/providers.ts";
import { BUILTIN_PLUGINS } from "../../plugin/locations.ts";
import { getSetup, type Presets } from "./shipped-presets.ts";
import type { SetupQuestions } from "../../contract/define.ts";
import type { CatalogEntry } from "../../plugin/locations.ts";
import { loadBuiltinSchema } from "../../plugin/sections.ts";
import type { CliIo } from "../io.ts";
import type { Prompts } from "../prompts.ts";

/** A channel that was chosen, with the answers to its questions. A secret is kept in a file of its own. */
export interface ChosenChannel {
  id: string;
  fields: { name: string; value: string; secret: boolean }[];
  allowFrom: string[];
  /** The recipient if none is named; empty: none. */
  to: string;
  /** The settings that were asked for: the answers take the place of those in a section that is there. */
  asked: readonly string[];
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
  /** Whether presets that are there already are printed and tested again. */
  isRepeated: boolean;
}

/** What is asked for. */
export interface AskedParts {
  presets: boolean;
  /** `true`: which ones; a list: those alone. */
  channels: boolean | readonly string[];
  model: boolean;
}

export type AskableChannel = CatalogEntry & { setupQuestions: SetupQuestions };

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
  return { id, fields, allowFrom: [], to, asked: [] };
}

/** The schema of a channel's section, a field at a time. */
interface SectionCheck {
  isOptional(field: string): boolean;
  /** What the channel would say of a value in its section; undefined if it takes it. */
  check(field: string, value: unknown): string | undefined;
}

async function loadSection(id: string): Promise<SectionCheck> {
  const schema = (await loadBuiltinSchema(BUILTIN_PLUGINS, id)) as
    | { shape?: Record<string, z.ZodType> }
    | undefined;
  const parse = (field: string, value: unknown) => schema?.shape?.[field]?.safeParse(value);
  return {
    isOptional: (field) => parse(field, undefined)?.success ?? true,
    check: (field, value) => parse(field, value)?.error?.issues[0]?.message,
  };
}

const toEntries = (text: string): string[] => text.split(/[\s,]+/).filter((entry) => entry !== "");

async function askChannel(
  { id, setupQuestions: setup }: AskableChannel,
  prompts: Prompts,
  io: CliIo,
): Promise<ChosenChannel> {
  await prompts.note(setup.where, setup.name);
  const { isOptional: mayBeEmpty, check } = await loadSection(id);
  const fields: ChosenChannel["fields"] = [];
  for (const { name, ask, env, value } of setup.fields) {
    if (env !== undefined && io.env[env]) {
      fields.push({ name, value: `\${${env}}`, secret: false });
      continue;
    }
    const isOptional = mayBeEmpty(name);
    const question = {
      message: isOptional ? `${ask}; empty: without` : ask,
      check: (answer: string) =>
        answer.trim() === "" && isOptional ? undefined : check(name, answer.trim()),
    };
    const given = await (env === undefined
      ? prompts.text({ ...question, ...(value === undefined ? {} : { initialValue: value }) })
      : prompts.password(question));
    if (given.trim() !== "") fields.push({ name, value: given.trim(), secret: env !== undefined });
  }
  const owner = await prompts.text({
    message: `Who may write to the agent there? ${setup.owner}; empty: no senders`,
    defaultValue: "",
    check: (answer) => check("allowFrom", toEntries(answer)),
  });
  const allowFrom = toEntries(owner);
  const to = await prompts.text({
    message: "Who gets the replies? A person, a group or a room there; empty: decide later",
    initialValue: allowFrom[0] ?? "",
    defaultValue: "",
    check: (answer) => (answer.trim() === "" ? undefined : check("defaultTo", answer.trim())),
  });
  const asked = [...setup.fields.map(({ name }) => name), "allowFrom", "defaultTo", "enabled"];
  return { id, fields, allowFrom, to: to.trim(), asked };
}

/** Asks for the model, and for what reaches it. Undefined: none yet. */
async function askForModel(prompts: Prompts, io: CliIo): Promise<ChosenModel | undefined> {
  const hasKey = (keys: readonly string[]): boolean => keys.some((key) => io.env[key]);
  const providers = readEnvironmentProviders(BUILTIN_PLUGINS);
  const choices = [
    ...providers.map(({ name, title, variables }) => ({
      value: name,
      label: `${title}${hasKey(variables) ? " (its key is in the environment)" : ""}`,
    })),
    { value: "other", label: "another server that speaks OpenAI's API, such as Ollama" },
    { value: "none", label: "none yet: replies only repeat what came in" },
  ];
  const chosen = await prompts.select({ message: "Which model answers?", options: choices });
  const known = providers.find(({ name }) => name === chosen);
  if (!known && chosen !== "other") return undefined;
  const baseUrl = known
    ? undefined
    : await prompts.text({
        message: "Base address of the server, such as http://127.0.0.1:11434/v1",
        check: (answer) =>
          /^https?:$/.test(URL.parse(answer.trim())?.protocol ?? "")
            ? undefined
            : "must begin with http:// or https://",
      });
  const model = await prompts.text({
    message: "Model",
    ...(known ? { initialValue: known.defaultModel } : {}),
    check: (answer) => (answer.trim() === "" ? "name one" : undefined),
  });
  const key =
    known && hasKey(known.variables)
      ? ""
      : await prompts.password({
          message: known ? "API key" : "API key; empty: without",
          check: (answer) =>
            known && answer.trim() === ""
              ? `${known.title} answers only with a key; Ctrl-C stops, and nothing is written`
              : undefined,
        });
  return {
    ref: `${known?.name ?? "custom"}/${model.trim()}`,
    type: known?.type ?? "openai-compatible",
    ...(baseUrl === undefined ? {} : { baseUrl: baseUrl.trim() }),
    ...(key.trim() === "" ? {} : { key: key.trim() }),
  };
}

/** Asks for what no flag has answered. */
export async function askQuestions(
  answers: Answers,
  asked: AskedParts,
  known: readonly AskableChannel[],
  presets: Presets,
  prompts: Prompts,
  io: CliIo,
): Promise<void> {
  if (asked.presets) {
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
  let chosen = typeof asked.channels === "boolean" ? [] : asked.channels;
  if (asked.channels === true) {
    const options = known.map(({ id, setupQuestions }) => ({
      value: id,
      label: setupQuestions.name,
    }));
    chosen = await prompts.multiselect({
      message: "Where do replies go? (none: this terminal)",
      options,
    });
  }
  for (const entry of known.filter(({ id }) => chosen.includes(id)))
    answers.channels.push(await askChannel(entry, prompts, io));
  if (asked.model) answers.model = await askForModel(prompts, io);
}
