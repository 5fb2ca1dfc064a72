/** The types for a program that embeds a gateway. They import as little as possible: strangers' compilers check them. */
import type { ConfigInput } from "../config/schema/index.ts";
import type { Clock } from "../core/clock.ts";
import type { DeliveryView, EventView, RunDetail } from "../operate/records/views.ts";
import type { Failure, Issue } from "../core/errors.ts";
import type { Plugin } from "../contract/define.ts";
import type { StoredReceipt } from "../store/types.ts";

export type { Clock, DeliveryView, EventView, Failure, RunDetail };

/** Takes the gateway's log: `console` and the loggers of most libraries fit. `fields` hold no body and no credential. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface GatewayOptions {
  /** The config itself, as `rouse.json5` would have it. `${NAME}` is a variable of `env`. `reload` reads the object again. */
  config?: ConfigInput;
  /** The path of a config file. Without it and without `config`: `rouse.json5` or `rouse.json` in `cwd`, or the defaults. */
  configFile?: string;
  /** Plugins beside those of the config. Each is in use unless its section of the config says `enabled: false`. */
  plugins?: readonly Plugin[];
  /** The folder of everything that is kept. Goes before `stateDir` of the config. Two gateways never share it. */
  stateDir?: string;
  /** The folder of relative paths of `config` and of these options. Default: the working folder of the process. */
  cwd?: string;
  /** Default: the system's clock. */
  clock?: Clock;
  /** Calls model providers, channels and senders. Default: the one of the process. */
  fetch?: typeof globalThis.fetch;
  /** Default: nothing is logged. `log.level` of the config applies. */
  log?: Log;
  /** The variables for `${NAME}` and for providers' keys. Default: those of the process. */
  env?: Readonly<Record<string, string | undefined>>;
  /** Writes replies of the channel that is a terminal. Without it that channel is not there. */
  print?(text: string): void;
}

/** Another address than that of the config. Port 0 takes a free one. */
export interface ListenAddress {
  host?: string;
  port?: number;
}

export interface StartOptions {
  /** Listens at the address of the config, or at another one. Default: false, since your server calls `fetch`. */
  listen?: boolean | ListenAddress;
  /** Runs agents and delivers replies. Default: true. Without, events are accepted and wait in the store. */
  workers?: boolean;
  /** Reloads the config when one of its files changes. Default: false. */
  watch?: boolean;
}

/** The addresses of a gateway that listens. */
export interface Addresses {
  url: string;
  adminUrl: string;
}

/** The facts that a server knows of a request besides the request itself. */
export interface Bindings {
  /** Node's own message: the body and the sender's address are read from it. */
  incoming?: { readonly socket: { readonly remoteAddress?: string | undefined } };
}

/** The result of a reload. With problems the config before it stays in use. */
export type Reloaded = { ok: true; hash: string } | { ok: false; issues: Issue[] };

export interface GatewayStatus {
  version: string;
  /** Milliseconds since the epoch. */
  startedAt: number;
  /** Set if it listens. */
  url: string | undefined;
  workers: boolean;
  /** True while it is stopping. */
  draining: boolean;
  /** The SHA-256 of what is in use: config, mappings, transforms. */
  snapshot: string;
  configFile: string | undefined;
  stateDir: string;
  /** Set while the last reload failed. */
  reloadProblems: readonly Issue[];
  warnings: readonly Issue[];
  /** The state of services, as plugins report it. */
  services: readonly { id: string; ok: boolean; message: string; since: number }[];
  /** `ok`: the channel could be reached. */
  channels: readonly { id: string; ok: boolean; message: string }[];
}

/** An event that the program hands over without HTTP. */
export interface HookInput {
  /** The path below `hooks.path`: `agent`, `wake`, `shop`. */
  path: string;
  /** Becomes JSON. Bytes are taken as they are, as what `content-type` of `headers` says. Default: `{}`. */
  body?: unknown;
  /** Default: `POST`. With `GET` the parameters of `query` are the payload. */
  method?: "POST" | "GET";
  headers?: Readonly<Record<string, string>>;
  query?: Readonly<Record<string, string>>;
}

/** The recorded outcome of an event. It is on disk. `actions` are those of the event that it repeats, if it is a repeat. */
export interface Receipt extends Pick<StoredReceipt, "actions" | "reason" | "warnings"> {
  kind: "receipt";
  eventId: string;
  outcome: EventView["outcome"];
  mapping?: string;
  /** The event that it repeats. */
  duplicateOf: string | undefined;
  /** The mapping that came closest and the condition that failed, if none matched. */
  nearest?: { mapping: string; condition: string };
  /** The reason that it was rejected or failed. */
  error?: Failure;
}

/** Authentication, a limit or a failure of the gateway stopped it. Nothing is recorded. */
export interface Denied {
  kind: "denied";
  error: Failure;
}

/** The events of `on`, by name, as the admin API and `--json` have them. Only events of this gateway are reported, not those of other gateways on the same database. */
export interface GatewayEvents {
  "event.recorded": EventView;
  "run.ended": RunDetail;
  "delivery.ended": DeliveryView;
}

export interface Gateway {
  /**
   * Answers a request: a hook, a channel's webhook, the API, the console. Pass what your server knows as `bindings`
   * (`c.env` of Hono); without `incoming` the caller counts as one on this machine.
   */
  fetch(request: Request, bindings?: Bindings): Promise<Response>;
  /**
   * Takes an event without HTTP, through the same mappings, and resolves once it is on disk. The program vouches for it: no
   * token and no signature is asked for, whatever the path's `auth` says. What was not recorded is `denied` and says why.
   * @throws TypeError if the body cannot be written as JSON.
   */
  receive(input: HookInput): Promise<Receipt | Denied>;
  /** Starts what the options ask for. A gateway can be started once. */
  start(options: StartOptions & { listen: true | ListenAddress }): Promise<Addresses>;
  start(options?: StartOptions): Promise<Addresses | undefined>;
  /** Lets runs under way end, for as long as `gateway.drainSeconds`, and closes everything. */
  stop(): Promise<void>;
  /** Reads config, mappings and transforms again. Takes all of it over, or nothing. */
  reload(): Promise<Reloaded>;
  status(): GatewayStatus;
  /**
   * Calls `listener` after each such event. A listener cannot hold up the gateway: it is called later, and what it throws
   * is logged.
   * @returns a function that ends the calls.
   */
  on<N extends keyof GatewayEvents>(
    name: N,
    listener: (event: GatewayEvents[N]) => void | Promise<void>,
  ): () => void;
}
