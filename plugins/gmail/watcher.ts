import { backOff, sleep } from "#channel-kit";
import type { PluginLog, SourceHost } from "#plugin";
import { createClients, readCredentials } from "./auth.ts";
import { getLabels, type GmailConfig } from "./config.ts";
import { MailHookError } from "./deliver.ts";
import { createGoogle, GoogleError, type Google } from "./google.ts";
import { createMailbox, labelIds, type Mailbox } from "./mailbox.ts";
import { acknowledge, laterId, getPubSubNames, pull, type Names, type Pulled } from "./pubsub.ts";
import { GmailProblem } from "./problem.ts";
import { goOnFrom, renderCheckpoint, readState, writeState, type WatchState } from "./state.ts";
import { STALE_MS, toServiceState } from "./status.ts";
import { syncMailbox } from "./sync.ts";

/** Waits and intervals, in milliseconds; tests have shorter ones. */
export interface Timing {
  firstWait: number;
  longestWait: number;
  /** Notifications get lost: a look at the mailbox without one. */
  syncEvery: number;
  /** Between looks of the one who watches the watcher. */
  checkEvery: number;
  stale: number;
  /** The interval at which the state file says that the watcher lives. */
  aliveEvery: number;
}

export const TIMING: Timing = {
  firstWait: 1000,
  longestWait: 300_000,
  syncEvery: 600_000,
  checkEvery: 30_000,
  stale: STALE_MS,
  aliveEvery: 240_000,
};

export interface WatcherDeps {
  config: GmailConfig & { account: string };
  stateDir: () => Promise<string>;
  fetch: typeof fetch;
  log: PluginLog;
  now(): number;
  timing?: Partial<Timing>;
}

export interface Watcher {
  /** Watches until the signal aborts. */
  run(signal: AbortSignal, host: Omit<SourceHost, "documents">): Promise<void>;
  /** There is something to look at. */
  notify(): void;
}

/** A week is how long a watch lives: with less than this left it is renewed at once. */
const NEAR_EXPIRY_MS = 86_400_000;
/** After so many failures in a row, also what may pass by itself is worth a word. */
const MANY_FAILURES = 3;
/** Somebody who has just run the setup again does not wait for long. */
const LONGEST_REVOKED_WAIT_MS = 60_000;

/** Clients that are used until a call is refused. */
interface Connection {
  google: Google;
  mailbox: Mailbox;
  names: Names;
}

class Watch {
  readonly #deps: WatcherDeps;
  readonly #timing: Timing;
  readonly #signal: AbortSignal;
  readonly #host: Omit<SourceHost, "documents">;
  readonly #state: WatchState;
  readonly #dir: string;
  /** The place as it was kept last. */
  #place: string | undefined;
  #connection: Connection | undefined;
  #failures = 0;
  #starting = true;
  /** The current step, and the one that failed last. */
  #step: "sync" | "pull" = "sync";
  #failedStep: "sync" | "pull" | undefined;
  /** Notifications that are not acknowledged yet. */
  #pending: Pulled | undefined;
  /** True if what is wrong has been told. */
  #told = false;
  #aliveAt: number;
  #renewalFailed: { message: string; again: number } | undefined;
  #wake = new AbortController();

  constructor(
    deps: WatcherDeps,
    signal: AbortSignal,
    host: Omit<SourceHost, "documents">,
    dir: string,
    state: WatchState,
  ) {
    this.#deps = deps;
    this.#timing = { ...TIMING, ...deps.timing };
    this.#signal = signal;
    this.#host = host;
    this.#dir = dir;
    this.#state = state;
    this.#aliveAt = deps.now();
  }

  notify(): void {
    this.#wake.abort();
  }

  async run(): Promise<void> {
    const check = setInterval(() => this.#check(), this.#timing.checkEvery);
    try {
      while (!this.#signal.aborted) await this.#turn();
    } finally {
      clearInterval(check);
    }
  }

  /** Writes the state down here, and its place for whichever gateway watches next. */
  async #keep(): Promise<void> {
    await writeState(this.#dir, this.#state);
    const place = renderCheckpoint(this.#state);
    if (place === this.#place) return;
    await this.#host.saveCursor(place);
    this.#place = place;
  }

  /** A loop that hangs says nothing by itself. */
  #check(): void {
    const { now } = this.#deps;
    const since = new Date(this.#aliveAt).toISOString();
    if (!this.#told && now() - this.#aliveAt > this.#timing.stale)
      this.#host.report({ ok: false, message: `Google has not answered since ${since}` });
  }

  async #turn(): Promise<void> {
    this.#step = "sync";
    try {
      const connection = (this.#connection ??= await this.#connect());
      await this.#renew(connection);
      const due = this.#deps.now() - (this.#state.lastSync ?? 0) >= this.#timing.syncEvery;
      if (due || this.#failures > 0 || this.#starting) await this.#sync(connection);
      if (this.#deps.config.pushEndpoint === undefined) await this.#pull(connection);
      else await this.#wait(connection);
    } catch (error) {
      if (!this.#signal.aborted) await this.#failed(error);
    }
  }

  async #connect(): Promise<Connection> {
    const { config, fetch } = this.#deps;
    const credentials = await readCredentials(config.credentials);
    const google = createGoogle(
      config,
      await createClients(config, credentials, { dir: this.#dir, fetch }),
    );
    const labels = await labelIds(config, google, this.#signal);
    const mailbox = createMailbox(config, google, labels, this.#signal);
    return { google, mailbox, names: getPubSubNames(config, credentials.project) };
  }

  /** Renews the watch when it is time. While the old one lives, a failure is told and stops nothing. */
  async #renew({ mailbox, names }: Connection): Promise<void> {
    const { config, now, log } = this.#deps;
    const state = this.#state;
    const watched = `${names.topic} ${getLabels(config).join(" ")}`;
    const alive = state.watched === watched && (state.watchExpires ?? 0) > now();
    const near =
      (state.watchExpires ?? 0) - now() < NEAR_EXPIRY_MS ||
      (state.watchedAt ?? 0) + config.renewEveryMinutes * 60_000 <= now();
    if (alive && (!near || (this.#renewalFailed && this.#renewalFailed.again > now()))) return;
    try {
      const { historyId, expires } = await mailbox.watch(names.topic);
      if (state.historyId === undefined)
        Object.assign(state, { historyId, startedAt: now(), lastSync: now() });
      Object.assign(state, { watchExpires: expires, watchedAt: now(), watched });
      this.#renewalFailed = undefined;
      await this.#keep();
      log.info(`the watch on ${config.account} lasts until ${new Date(expires).toISOString()}`);
    } catch (error) {
      if (
        !alive ||
        this.#signal.aborted ||
        !(error instanceof GoogleError) ||
        error.kind === "revoked"
      )
        throw error;
      this.#renewalFailed = {
        message: `the watch could not be renewed: ${error.message}`,
        again: now() + this.#timing.longestWait,
      };
    }
  }

  async #sync({ mailbox }: Connection): Promise<void> {
    const { config, log, now } = this.#deps;
    await syncMailbox({
      mailbox,
      gateway: this.#host,
      hook: config.hook,
      state: this.#state,
      keep: () => this.#keep(),
      log,
      now,
    });
    this.#starting = false;
    await this.#succeeded();
  }

  async #pull(connection: Connection): Promise<void> {
    const { google, names } = connection;
    const { firstWait, longestWait } = this.#timing;
    this.#step = "pull";
    this.#pending ??= await pull(google, names.subscription, this.#signal);
    const { ackIds, historyId } = this.#pending;
    if (ackIds.length > 0) {
      const behind = (): boolean =>
        historyId === undefined ||
        laterId(historyId, this.#state.historyId) !== this.#state.historyId;
      this.#step = "sync";
      // A redelivery of what is done needs no look.
      if (behind()) await this.#sync(connection);
      // The history may come some moments after its notification.
      for (let again = 1; again <= 3 && historyId !== undefined && behind(); again++) {
        const waitMs = backOff(again, { firstMs: firstWait, longestMs: longestWait });
        await sleep(waitMs, this.#signal);
        await this.#sync(connection);
      }
      this.#step = "pull";
      await acknowledge(google, names.subscription, ackIds, this.#signal);
    }
    this.#pending = undefined;
    await this.#succeeded();
  }

  /** Waits for a push, or for the time to look without one. */
  async #wait(connection: Connection): Promise<void> {
    const { renewEveryMinutes } = this.#deps.config;
    const time = Math.min(this.#timing.syncEvery, renewEveryMinutes * 60_000);
    await sleep(time, AbortSignal.any([this.#signal, this.#wake.signal]));
    if (this.#signal.aborted) return;
    this.#wake = new AbortController();
    await this.#sync(connection);
  }

  async #succeeded(): Promise<void> {
    const { now, config } = this.#deps;
    this.#aliveAt = now();
    if (this.#aliveAt - (this.#state.aliveAt ?? 0) > this.#timing.aliveEvery) {
      this.#state.aliveAt = this.#aliveAt;
      await this.#keep();
    }
    // That the mailbox can be read does not make up for a pull that fails.
    if (this.#step === "sync" && this.#failedStep === "pull") return;
    this.#failures = 0;
    this.#failedStep = undefined;
    this.#told = false;
    const { ok, message } = toServiceState(config, this.#state, this.#aliveAt);
    this.#host.report(
      this.#renewalFailed ? { ok: false, message: this.#renewalFailed.message } : { ok, message },
    );
  }

  async #failed(problem: unknown): Promise<void> {
    const { firstWait, longestWait } = this.#timing;
    const known = problem instanceof GmailProblem ? problem : undefined;
    const passing =
      problem instanceof MailHookError
        ? problem.transient
        : problem instanceof GoogleError && problem.kind === "transient";
    const message =
      known?.message ??
      `it failed unexpectedly (${(problem as NodeJS.ErrnoException).code ?? (problem as Error).name})`;
    // Tokens and grants may be others next time.
    if (!(problem instanceof MailHookError)) this.#connection = undefined;
    this.#failures++;
    this.#failedStep = this.#step;
    if (!passing || this.#failures >= MANY_FAILURES) {
      this.#told = true;
      this.#host.report({ ok: false, message });
      if (this.#state.lastError?.message !== message) {
        this.#state.lastError = { at: this.#deps.now(), message };
        await this.#keep().catch(() => undefined);
      }
    }
    const revoked = problem instanceof GoogleError && problem.kind === "revoked";
    const most = revoked ? Math.min(LONGEST_REVOKED_WAIT_MS, longestWait) : longestWait;
    const wait =
      backOff(this.#failures, { firstMs: firstWait, longestMs: most }) * (0.5 + Math.random() / 2);
    await sleep(wait, this.#signal);
  }
}

/** Waits until what is on disk can be read; undefined where the signal has aborted before. */
async function readable<T>(
  read: () => Promise<T>,
  signal: AbortSignal,
  host: Omit<SourceHost, "documents">,
): Promise<T | undefined> {
  while (!signal.aborted) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof GmailProblem)) throw error;
      host.report({ ok: false, message: error.message });
      await sleep(LONGEST_REVOKED_WAIT_MS, signal);
    }
  }
  return undefined;
}

/** The watcher of one mailbox. */
export function createWatcher(deps: WatcherDeps): Watcher {
  let watch: Watch | undefined;
  return {
    async run(signal, host) {
      const dir = await deps.stateDir();
      const state = await readable(() => readState(dir, deps.config.account), signal, host);
      if (!state) return;
      goOnFrom(state, await host.cursor());
      watch = new Watch(deps, signal, host, dir, state);
      await watch.run();
    },
    notify: () => watch?.notify(),
  };
}
