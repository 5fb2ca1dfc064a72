import type { z } from "zod";
import type { PresetDocument } from "../config/schema/mapping.ts";
import type { Channel, Cursor, PluginContext, ServiceState } from "./channel.ts";

/** What a service and a command may ask of the gateway. */
export interface Gateway {
  /** Sends an event to the hook `path` as a caller with the hook token would. With a 2xx it is on disk. Throws where no gateway answers. */
  hook(path: string, body: unknown): Promise<{ status: number; body: unknown }>;
}

/** The gateway, as a service sees it. With its cursor a service goes on where it stopped, in whichever gateway it runs next. */
export interface ServiceHost extends Gateway, Cursor {
  report(state: ServiceState): void;
}

/**
 * Something that runs with the gateway, in one process at a time. `start` resolves once `signal` has aborted and all is
 * cleaned up; ends it sooner, it counts as failing and is started again, later each time.
 */
export interface Service {
  start(signal: AbortSignal, host: ServiceHost): Promise<void>;
  /**
   * Answers requests to `/channels/<id>` and below, in every gateway: also in those where `start` does not run. Nobody
   * has checked who sends them: that is the plugin's part.
   */
  request?(request: Request): Promise<Response>;
  /** Where several gateways run: another one has answered a request, which may be news for this one. */
  nudge?(): void;
}

/** What a command gets. */
export interface CommandContext<C> extends Omit<PluginContext<C>, "config" | "print">, Gateway {
  /** The checked section; undefined where the config has none yet. */
  config: C | undefined;
  /** Standard output and standard error; line breaks are the caller's. */
  out(text: string): void;
  err(text: string): void;
  /** Whether to print JSON alone. */
  json: boolean;
  /** The config as it is written in its file, `${NAME}` not replaced. */
  writtenConfig(): Promise<Record<string, unknown>>;
  /** Changes members of the config file by their paths; comments stay. Returns the file. Throws where there is none. */
  editConfig(changes: readonly { path: readonly string[]; value: unknown }[]): Promise<string>;
  /** What the service of the gateway that runs last reported; undefined where none runs. */
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
  /** Options arrive by the same names, flags as `true`. Returns the exit code: 0 well, 1 failed, 2 wrong usage. */
  run(context: CommandContext<C>, options: Record<string, string | true | undefined>): Promise<number>;
}

export interface Plugin<S extends z.ZodType = z.ZodType> {
  /** The id: name of the folder, of the channel and of the config section. */
  id: string;
  /** Other names of the channel. */
  aliases?: readonly string[];
  /** Schema of `channels.<id>` (or of `hooks.<id>` where `section` is `hooks`). */
  config?: S;
  section?: "channels" | "hooks";
  /** A channel that is there without a section in the config, while no other channel is configured. */
  always?: boolean;
  channel?(context: PluginContext<z.output<S>>): Channel;
  service?(context: PluginContext<z.output<S>>): Service;
  commands?: Record<string, Command<z.output<S>>>;
  /** Presets, each enabled by its `id` in `hooks.presets`. They need no section of the plugin. */
  presets?: readonly PresetDocument[];
}

/** Marks a plugin. Returns it as it is; the host checks it when it loads it. */
export function definePlugin<S extends z.ZodType>(plugin: Plugin<S>): Plugin<S> {
  return plugin;
}
