import type { z } from "zod";
import type { PresetDocument } from "../config/schema/mapping.ts";
import type { SchemeDocument } from "../config/schema/signature.ts";
import type { Channel, PluginContext, ServiceState } from "./channel.ts";
import type {
  ContextProvider,
  Extractor,
  Hooks,
  ModelProvider,
  Routes,
  Source,
  Tool,
} from "./kinds.ts";

/** The environment of a command. */
export interface CommandContext<C> extends Omit<PluginContext<C>, "config" | "print">, Hooks {
  /** The checked section; undefined if the config has none yet. */
  config: C | undefined;
  /** Standard output and standard error; line breaks are the caller's. */
  out(text: string): void;
  err(text: string): void;
  /** Prints an error as every command does, and returns the exit code. Default: 1. */
  fail(message: string, exitCode?: number): number;
  /** True if the command is to print JSON alone. */
  json: boolean;
  /** The config as it is written in its file, `${NAME}` not replaced. */
  writtenConfig(): Promise<Record<string, unknown>>;
  /** Changes members of the config file by their paths; comments stay. Returns the file. Throws if there is none. */
  editConfig(changes: readonly { path: readonly string[]; value: unknown }[]): Promise<string>;
  /** The state that the source of the gateway that runs last reported; undefined if no gateway runs. */
  serviceState(): Promise<ServiceState | undefined>;
}

/** An option of a command: a flag, or with `value` the name of what follows it. */
export interface CommandOption {
  describe: string;
  value?: string;
}

/** `rouse webhooks <id> <name>`. */
export interface Command<C> {
  /** One line for the help. */
  summary: string;
  /** By name, without dashes; each command has `--config`, `--json` and `--verbose` besides. */
  options?: Record<string, CommandOption>;
  /** Options arrive by the same names, flags as `true`. Returns the exit code: 0 success, 1 failed, 2 wrong usage. */
  run(
    context: CommandContext<C>,
    options: Record<string, string | true | undefined>,
  ): Promise<number>;
}

/** Everything that a plugin offers on the basis of its section. */
export interface Capabilities {
  channel?: Channel;
  source?: Source;
  /** Tools for agents, named `<id>.<tool>`. */
  tools?: readonly Tool[];
  /** Adds text to turns. */
  context?: ContextProvider;
  routes?: Routes;
}

/**
 * A plugin: one object. The functions that make capabilities are called with the checked section, once for each snapshot
 * and account; everything else needs no section. What a plugin offers is checked and taken over whole, or not at all.
 */
export interface Plugin<S extends z.ZodType = z.ZodType> {
  /** The id: name of the folder, of the channel and of the config section. */
  id: string;
  /** Other names of the channel. */
  aliases?: readonly string[];
  /** The schema of its section. */
  config?: S;
  /** The place of its section. Default: `channels.<id>` if it has `channel`, else `plugins.settings.<id>`. */
  section?: "channels" | "hooks" | "plugins";
  /** A channel that is enabled without a section while no other channel is configured. */
  enabledByDefault?: boolean;
  channel?(context: PluginContext<z.output<S>>): Channel;
  source?(context: PluginContext<z.output<S>>): Source;
  tools?(context: PluginContext<z.output<S>>): readonly Tool[];
  context?(context: PluginContext<z.output<S>>): ContextProvider;
  routes?(context: PluginContext<z.output<S>>): Routes;
  /** Makes several capabilities that share something. It replaces `channel`, `source`, `tools`, `context` and `routes`. */
  setup?(context: PluginContext<z.output<S>>): Capabilities | Promise<Capabilities>;
  /** By their names: `rouse webhooks <id> <name>`, and `rouse webhooks <id>` for `status`. */
  commands?: Record<string, Command<z.output<S>>>;
  /** Presets, each enabled by its `id` in `hooks.presets`. */
  presets?: readonly PresetDocument[];
  /** Signature schemes by the name that `auth.scheme` of a mapping or preset has. */
  schemes?: Readonly<Record<string, SchemeDocument>>;
  /** Transform modules by name, as file URLs. A mapping names one as `transform: { module: "<id>/<name>" }`. */
  transforms?: Readonly<Record<string, string>>;
  /** Kinds of model providers. */
  providers?: readonly ModelProvider[];
  /** Document formats for knowledge. */
  extractors?: readonly Extractor[];
  /** Questions of `rouse init` for a channel. */
  setupQuestions?: SetupQuestions;
}

/** Questions of `rouse init` for a channel. */
export interface SetupQuestions {
  name: string;
  /** The place where a user finds the credentials. */
  where: string;
  /** `env`: a secret, and the variable that usually holds it. `value`: the usual value. */
  fields: readonly { name: string; ask: string; env?: string; value?: string }[];
  /** An example of an entry of `allowFrom`. */
  owner: string;
}

/** Declares a plugin. Returns it unchanged; the gateway checks it when it loads it. */
export function definePlugin<S extends z.ZodType>(plugin: Plugin<S>): Plugin<S> {
  return plugin;
}
