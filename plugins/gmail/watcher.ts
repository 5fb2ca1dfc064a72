import { backOff, sleep } from "#channel-kit";
import type { PluginLog, SourceHost } from "#plugin";
import { createClients, readCredentials } from "./auth.ts";
import { getLabels, type GmailConfig } from "./config.ts";
import { MailHookError } from "./deliver.ts";
import { createGoogle, GoogleError, type Google } from "./google.ts";
import { createMailbox, labelIds, type Mailbox } from "./mailbox.ts";
import { acknowledge, laterId, getPubSubNames, pull, type Names, type Pulled } from "./pubsub.ts";
import { GmailProblem } from "./problem.ts";
import type { Pushes } from "./push.ts";
import { goOnFrom, renderCheckpoint, readState, writeState, type WatchState } from "./state.ts";
import { toServiceState } from "./status.ts";
import { syncMailbox } from "./sync.ts";

/** Waits in milliseconds; tests have shorter ones. */
const WAITS = {
  first: 1000,
  longest: 300_000,
  /** Notifications get lost: a look at the mailbox without one. */
  syncEvery: 600_000,
};
export type Waits = typeof WAITS;

interface WatcherDeps {
  config: GmailConfig & { account: string };
  stateDir: () => Promise<string>;
  fetch: typeof fetch;
  log: PluginLog;
  now(): number;
  /** Waited for in place of pulling. */
  pushes?: Pushes | undefined;
  waits?: Partial<Waits>;
}

type Host = Omit<SourceHost, "documents">;

/** The interval at which the state file says that the watcher lives. */
const ALIVE_EVERY_MS = 240_000;
/** Google ends a watch after a week: with less than this left it is renewed however often that is. */
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
  readonly #waits: Waits;
  readonly #signal: AbortSignal;
  readonly #host: Host;
  readonly #dir: string;
  readonly #state: WatchState;
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
  #renewalFailed: { message: string; again: number } | undefined;

  constructor(
    deps: WatcherDeps,
    signal: AbortSignal,
    host: Host,
    { dir, state }: { dir: string; state: WatchState },
  ) {
    this.#deps = deps;
    this.#waits = { ...WAITS, ...deps.waits };
    this.#signal = signal;
    this.#host = host;
    this.#dir = dir;
    this.#state = state;
  }

  async run(): Promise<void> {
    while (!this.#signal.aborted) await this.#turn();
  }

  /** Writes the state down here, and its place for whichever gateway watches next. */
  async #keep(): Promise<void> {
    await writeState(this.#dir, this.#state);
    const place = renderCheckpoint(this.#state);
    if (place === this.#place) return;
    await this.#host.saveCursor(place);
    this.#place = place;
  }

  async #turn(): Promise<void> {
    this.#step = "sync";
    try {
      const connection = (this.#connection ??= await this.#connect());
      await this.#renew(connection);
      const due = this.#deps.now() - (this.#state.lastSync ?? 0) >= this.#waits.syncEvery;
      if (due || this.#failures > 0 || this.#starting) await this.#sync(connection);
      if (this.#deps.pushes) await this.#wait(connection, this.#deps.pushes);
      else await this.#pull(connection);
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
      const isRevoked = error instanceof GoogleError && error.kind === "revoked";
      if (!alive || this.#signal.aborted || !(error instanceof GoogleError) || isRevoked)
        throw error;
      this.#renewalFailed = {
        message: `the watch could not be renewed: ${error.message}`,
        again: now() + this.#waits.longest,
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
    const { first: firstMs, longest: longestMs } = this.#waits;
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
        await sleep(backOff(again, { firstMs, longestMs }), this.#signal);
        await this.#sync(connection);
      }
      this.#step = "pull";
      await acknowledge(google, names.subscription, ackIds, this.#signal);
    }
    this.#pending = undefined;
    await this.#succeeded();
  }

  /** Waits for a push, or for the time to look without one. */
  async #wait(connection: Connection, pushes: Pushes): Promise<void> {
    const renewEvery = this.#deps.config.renewEveryMinutes * 60_000;
    await pushes.next(Math.min(this.#waits.syncEvery, renewEvery), this.#signal);
    if (!this.#signal.aborted) await this.#sync(connection);
  }

  async #succeeded(): Promise<void> {
    const { now, config } = this.#deps;
    if (now() - (this.#state.aliveAt ?? 0) > ALIVE_EVERY_MS) {
      this.#state.aliveAt = now();
      await this.#keep();
    }
    // That the mailbox can be read does not make up for a pull that fails.
    if (this.#step === "sync" && this.#failedStep === "pull") return;
    this.#failures = 0;
    this.#failedStep = undefined;
    this.#host.report(
      this.#renewalFailed
        ? { ok: false, message: this.#renewalFailed.message }
        : toServiceState(config, this.#state, now()),
    );
  }

  async #failed(problem: unknown): Promise<void> {
    const { first: firstMs, longest } = this.#waits;
    const passing =
      problem instanceof MailHookError
        ? problem.transient
        : problem instanceof GoogleError && problem.kind === "transient";
    const message =
      problem instanceof GmailProblem
        ? problem.message
        : `it failed unexpectedly (${(problem as NodeJS.ErrnoException).code ?? (problem as Error).name})`;
    // Tokens and grants may be others next time.
    if (!(problem instanceof MailHookError)) this.#connection = undefined;
    this.#failures++;
    this.#failedStep = this.#step;
    if (!passing || this.#failures >= MANY_FAILURES) {
      this.#host.report({ ok: false, message });
      if (this.#state.lastError?.message !== message) {
        this.#state.lastError = { at: this.#deps.now(), message };
        await this.#keep().catch(() => undefined);
      }
    }
    const revoked = problem instanceof GoogleError && problem.kind === "revoked";
    const longestMs = revoked ? Math.min(LONGEST_REVOKED_WAIT_MS, longest) : longest;
    const wait = backOff(this.#failures, { firstMs, longestMs }) * (0.5 + Math.random() / 2);
    await sleep(wait, this.#signal);
  }
}

/** Waits until what is on disk can be read; undefined where the signal has aborted before. */
async function readable<T>(
  read: () => Promise<T>,
  signal: AbortSignal,
  host: Host,
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

/** Watches a mailbox until the signal aborts. */
export async function watchMailbox(
  deps: WatcherDeps,
  signal: AbortSignal,
  host: Host,
): Promise<void> {
  const dir = await deps.stateDir();
  const state = await readable(() => readState(dir, deps.config.account), signal, host);
  if (!state) return;
  goOnFrom(state, await host.cursor());
  await new Watch(deps, signal, host, { dir, state }).run();
}
