import type { z } from "zod";
import { readEnvironmentProviders } from "../../config/providers.ts";
import { BUILTIN_PLUGINS, readCatalog, type CatalogEntry } from "../../plugin/locations.ts";
import { getSetup, type Presets } from "../hooks/find-presets.ts";
import type { SetupQuestions } from "../../contract/define.ts";
import { builtinSections } from "../../plugin/sections.ts";
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

/** The contents of a setup, from flags or from questions. */
export interface Answers {
  presets: string[];
  /** Secrets that senders have shown, by preset. */
  secrets: Record<string, string>;
  channels: ChosenChannel[];
  model: ChosenModel | undefined;
  port: number | undefined;
  publicUrl: string | undefined;
}

export type AskableChannel = CatalogEntry & { setupQuestions: SetupQuestions };

/** The channels that can be set up by answering questions. */
export const getAskableChannels = (): AskableChannel[] =>
  readCatalog(BUILTIN_PLUGINS).filter(
    (entry): entry is AskableChannel => entry.setupQuestions !== undefined,
  );

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

/** Reads the schema of a channel's section, a field at a time. */
async function loadSection(id: string) {
  const [section] = await builtinSections(BUILTIN_PLUGINS, id);
  const schema = section?.schema as { shape?: Record<string, z.ZodType> } | undefined;
  const parse = (field: string, value: unknown) => schema?.shape?.[field]?.safeParse(value);
  return {
    isOptional: (field: string): boolean => parse(field, undefined)?.success ?? true,
    /** Returns the channel's error about a value; undefined if the value is valid. */
    check: (field: string, value: unknown): string | undefined =>
      parse(field, value)?.error?.issues[0]?.message,
  };
}

/** The questions are asked by `prompts`, except those that a variable of the environment answers. */
interface Terminal {
  prompts: Prompts;
  env: CliIo["env"];
}

const toEntries = (text: string): string[] => text.split(/[\s,]+/).filter((entry) => entry !== "");

async function askChannel(
  { id, setupQuestions: setup }: AskableChannel,
  { prompts, env: variables }: Terminal,
): Promise<ChosenChannel> {
  await prompts.note(setup.where, setup.name);
  const { isOptional: mayBeEmpty, check } = await loadSection(id);
  const fields: ChosenChannel["fields"] = [];
  for (const { name, ask, env, value } of setup.fields) {
    if (env !== undefined && variables[env]) {
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
async function askForModel({ prompts, env }: Terminal): Promise<ChosenModel | undefined> {
  const hasKey = (keys: readonly string[]): boolean => keys.some((key) => env[key]);
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

/**
 * Asks for what no flag has answered.
 * @param isAll false: only what is missing of the senders and channels that flags name.
 */
export async function askQuestions(
  answers: Answers,
  flags: { preset?: unknown; channel?: string[] | undefined },
  isAll: boolean,
  presets: Presets,
  terminal: Terminal,
): Promise<void> {
  const { prompts } = terminal;
  const known = getAskableChannels();
  if (isAll && flags.preset === undefined)
    answers.presets = await prompts.multiselect({
      message: "Whose webhooks? (presets; none: only mappings of your own)",
      options: [...presets.keys()].map((value) => ({ value, label: value })),
    });
  for (const name of answers.presets) {
    const { secret, where } = getSetup(presets, name);
    if (secret !== "shown" || answers.secrets[name] !== undefined) continue;
    const given = await prompts.password({
      message: `The secret that ${name} shows (${where ?? "its webhook settings"}); empty: later`,
    });
    if (given !== "") answers.secrets[name] = given;
  }
  const chosen =
    isAll && flags.channel === undefined
      ? await prompts.multiselect({
          message: "Where do replies go? (none: this terminal)",
          options: known.map(({ id, setupQuestions }) => ({
            value: id,
            label: setupQuestions.name,
          })),
        })
      : flags.channel;
  answers.channels = [];
  for (const entry of known.filter(({ id }) => chosen?.includes(id)))
    answers.channels.push(await askChannel(entry, terminal));
  if (isAll && !answers.model) answers.model = await askForModel(terminal);
}
