/**
 * What a plugin may use: `import { definePlugin } from "#plugin"` inside Rouse, `from "rouse/plugin"` outside.
 * A plugin is a plain object; what it offers is returned and taken over whole or not at all.
 */
import type { z } from "zod";

export { parseMarkdown } from "../delivery/markdown.ts";
export { neverConnected, readBody, sameSecret } from "./kit.ts";

/** One message, already in a piece that fits the channel. */
export interface OutgoingMessage {
  to: string;
  /** Markdown as the agent wrote it. */
  text: string;
  thread?: string;
  /** The message that this one answers, where it was written on the channel: its id there. */
  replyTo?: string;
  /** The same for every try at this piece: channels that know idempotency keys use it. */
  idempotencyKey: string;
}

/**
 * How sending ended. `retry` may pass later (`afterMs`: the channel's own wish), `failed` never will,
 * `unknown` may have arrived and is not sent again.
 * `reason` is kept and shown to the operator: no body, no credential.
 */
export type SendResult =
  | { status: "sent"; messageIds?: string[] }
  | { status: "retry"; reason: string; afterMs?: number }
  | { status: "failed"; reason: string }
  | { status: "unknown"; reason: string };

/** A message that somebody wrote on the channel. */
export interface IncomingMessage {
  /** The channel's own id of the message: a repeat of it makes no second turn. */
  id: string;
  /** Who wrote it: an id that stays, never a display name. */
  from: string;
  /** Where the answer goes, as `send` takes it. */
  to: string;
  thread?: string;
  /** Written to the agent alone; false for a mention in a group. */
  direct: boolean;
  text: string;
}

/** The gateway, as a channel that receives sees it. */
export interface ChannelHost {
  /** Hands a message over; once it resolves the message is on disk, and the vendor may forget it. */
  receive(message: IncomingMessage): Promise<void>;
  report(state: ServiceState): void;
  /** The place in the vendor's stream, kept across restarts. Save it after what lies before it was received. */
  cursor(): Promise<string | undefined>;
  saveCursor(cursor: string): Promise<void>;
}

/** A place where replies go. Only `send` is required. */
export interface Channel {
  send(message: OutgoingMessage, signal: AbortSignal): Promise<SendResult>;
  /** The longest message, in UTF-16 units of the markdown or as `measure` counts; default unlimited. */
  limit?: number;
  /** The length of a markdown text as this channel counts it once it is in its dialect. Pieces are cut so that each fits. */
  measure?(text: string): number;
  /** Ids of those who may speak to the agent, as `from` gives them. Others are recorded and answered nothing; none: nobody. */
  allowFrom?: readonly string[];
  /** Listens until `signal` aborts; reconnects by itself, and reports how it does. Runs in one process at a time. */
  listen?(signal: AbortSignal, host: ChannelHost): Promise<void>;
  /** Answers requests to `/channels/<id>` and below. Nobody has checked who sends them: that is the plugin's part. */
  request?(request: Request, host: ChannelHost): Promise<Response>;
  /** Where replies go when nothing else says so. */
  defaultTo?: string;
  /** The last resort for `channel: "last"` when no last route is known. At most one loaded channel may say so. */
  fallback?: boolean;
  /** Checks and normalises a recipient. Default: any text that is not blank. */
  parseRecipient?(to: string): { ok: true; to: string } | { ok: false; message: string };
  /** Cheap check that the channel can be reached, for `doctor`. */
  probe?(signal: AbortSignal): Promise<{ ok: true } | { ok: false; message: string }>;
}

export interface PluginLog {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** What a plugin gets. Side effects come in as arguments. */
export interface PluginContext<C> {
  config: C;
  fetch: typeof fetch;
  clock: { now(): number };
  log: PluginLog;
  /** Ends with the gateway or with the snapshot. */
  signal: AbortSignal;
  /** A folder of the plugin's own in the state folder; made when first asked for. */
  stateDir: () => Promise<string>;
  /** Standard output of the gateway, for channels that are a terminal. */
  print: (text: string) => void;
}

/** What a service and a command may ask of the gateway. */
export interface Gateway {
  /** Sends an event to the hook `path` as a caller with the hook token would. With a 2xx it is on disk. Throws where no gateway answers. */
  hook(path: string, body: unknown): Promise<{ status: number; body: unknown }>;
}

/** How a service does. `ok: false` shows in `/readyz`, `rouse doctor` and the log; say what to change. No body, no credential. */
export interface ServiceState {
  ok: boolean;
  message: string;
}

/** The gateway, as a service sees it. */
export interface ServiceHost extends Gateway {
  report(state: ServiceState): void;
}

/**
 * Something that runs with the gateway, in one process at a time. `start` resolves once `signal` has aborted and all is
 * cleaned up; ends it sooner, it counts as failing and is started again, later each time.
 */
export interface Service {
  start(signal: AbortSignal, host: ServiceHost): Promise<void>;
  /** Answers requests to `/channels/<id>` and below. Nobody has checked who sends them: that is the plugin's part. */
  request?(request: Request): Promise<Response>;
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
}

/** Marks a plugin. Returns it as it is; the host checks it when it loads it. */
export function definePlugin<S extends z.ZodType>(plugin: Plugin<S>): Plugin<S> {
  return plugin;
}
