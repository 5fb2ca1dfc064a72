import { backOff, WAITS } from "../../core/backoff.ts";
import { readMonotonic, type Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import type { Ms } from "../../store/records.ts";
import type { ToolOutput } from "../../store/steps.ts";
import {
  openConnection,
  SessionGoneError,
  type ListedTool,
  type McpCall,
  type McpConnection,
  type McpEnvironment,
  type McpServerConfig,
  describeProblem,
} from "./mcp-client.ts";
import { raceAbort } from "../../core/pause.ts";

/** The state of the connection to a server of `mcp.servers`. */
export interface McpServerState {
  name: string;
  /** `idle`: no agent has used it yet. `failing`: it is tried again at `nextTryAt`. */
  state: "idle" | "connecting" | "connected" | "failing";
  /** The number of tools that it lists. */
  tools: number;
  /** When the current connection was established. */
  since?: Ms;
  /** The number of lost connections. */
  losses: number;
  /** The reason that the server cannot be reached, or was lost last. Quotes no text of the server. */
  error?: string;
  nextTryAt?: Ms;
}

export interface McpServerOptions extends McpEnvironment {
  name: string;
  server: McpServerConfig;
  clock: Pick<Clock, "now" | "monotonic" | "sleep">;
  log: Logger;
}

/** A turn that needs the server triggers an attempt immediately, but at the earliest after this time since the last attempt. */
const SHORTEST_GAP_MS = 500;
/** A connection that lasted this long counts as successful: the next one is made immediately. */
const STABLE_MS = 10_000;
/** Long, because a program may have to be downloaded first. */
const CONNECT_MS = 60_000;
/** The longest time that a call waits for a lost server to be connected again. */
const RETURN_MS = 15_000;
const CLOSE_MS = 5_000;

type Waiter = PromiseWithResolvers<McpConnection>;

/** The supervised connection to one server: made when first needed, and made again after a loss or a failure, later each time. */
export class McpServer {
  readonly #options: McpServerOptions;
  readonly #ended = new AbortController();
  readonly #waiters = new Set<Waiter>();
  #state: McpServerState;
  #tools: readonly ListedTool[] = [];
  #current: McpConnection | undefined;
  #lose: (error: unknown) => void = () => undefined;
  #hurry = new AbortController();
  #loop: Promise<void> | undefined;

  constructor(options: McpServerOptions) {
    this.#options = options;
    this.#state = { name: options.name, state: "idle", tools: 0, losses: 0 };
  }

  get state(): McpServerState {
    return this.#state;
  }

  /** Connects and stays connected from now on. */
  start(): void {
    this.#loop ??= this.#supervise().finally(() =>
      this.#settle(({ reject }) => reject(new Error("closed"))),
    );
  }

  /** Returns the server's tools. Connects if need be; rejects if the attempt fails or the signal aborts. */
  async tools(signal: AbortSignal): Promise<readonly ListedTool[]> {
    await this.#connect(signal);
    return this.#tools;
  }

  /** Calls a tool. A call that was not carried out because the session was lost is made once more. */
  async call(call: McpCall): Promise<ToolOutput> {
    const { name } = this.#options;
    const signal = AbortSignal.any([call.signal, AbortSignal.timeout(RETURN_MS)]);
    for (let tries = 0; tries < 2; tries++) {
      const connection = await this.#reach(signal);
      try {
        return await connection.call(call);
      } catch (error) {
        if (!(error instanceof SessionGoneError)) throw error;
        if (connection === this.#current) this.#lose(error.cause);
      }
    }
    throw new Error(`mcp.servers.${name} rejected the call twice; the tool was not called`);
  }

  /** Ends the connection, and the server's program. */
  async close(): Promise<void> {
    this.#ended.abort();
    await raceAbort(this.#loop ?? Promise.resolve(), AbortSignal.timeout(CLOSE_MS)).catch(
      () => undefined,
    );
  }

  async #supervise(): Promise<void> {
    const { name, clock, log } = this.#options;
    let failures = 0;
    while (!this.#ended.signal.aborted) {
      const triedAt = readMonotonic(clock);
      this.#state = { ...this.#state, state: "connecting" };
      const { problem, wasConnected } = await this.#connectOnce();
      if (this.#ended.signal.aborted) return;
      failures = wasConnected && readMonotonic(clock) - triedAt >= STABLE_MS ? 0 : failures + 1;
      const waitMs = failures === 0 ? 0 : backOff(failures, WAITS.mcpServer);
      const error = describeProblem(problem);
      const { since: _since, ...rest } = this.#state;
      this.#state = {
        ...rest,
        state: "failing",
        error,
        nextTryAt: clock.now() + waitMs,
        losses: rest.losses + (wasConnected ? 1 : 0),
      };
      log.warn(
        { server: name, problem: error, waitMs },
        wasConnected ? "an MCP server was lost" : "an MCP server cannot be reached",
      );
      if (!wasConnected) this.#settle(({ reject }) => reject(problem));
      await this.#pause(waitMs, triedAt);
    }
  }

  /** Connects, and returns once the attempt has failed or the connection is lost. */
  async #connectOnce(): Promise<{ problem: unknown; wasConnected: boolean }> {
    const ended = this.#ended.signal;
    const { clock } = this.#options;
    const lost = Promise.withResolvers<unknown>();
    this.#lose = (error) => {
      this.#current = undefined;
      lost.resolve(error);
    };
    const signal = AbortSignal.any([ended, AbortSignal.timeout(CONNECT_MS)]);
    const onTools = (tools: readonly ListedTool[]): void => {
      this.#tools = tools;
      this.#state = { ...this.#state, tools: tools.length };
    };
    let connection: McpConnection;
    try {
      connection = await openConnection({
        ...this.#options,
        connectMs: CONNECT_MS,
        signal,
        onTools,
        onLost: this.#lose,
      });
    } catch (error) {
      return { problem: error, wasConnected: false };
    }
    const { error: _error, nextTryAt: _next, ...rest } = this.#state;
    this.#state = { ...rest, state: "connected", since: clock.now() };
    this.#current = connection;
    this.#settle(({ resolve }) => resolve(connection));
    const problem = await raceAbort(lost.promise, ended).catch((error: unknown) => error);
    this.#current = undefined;
    const closed = connection.close(ended.aborted ? "now" : "idle").catch(() => undefined);
    if (ended.aborted) await closed;
    return { problem, wasConnected: true };
  }

  /** Waits before the next try; a turn that needs the server cuts the wait short. */
  async #pause(waitMs: number, triedAt: Ms): Promise<void> {
    const { clock } = this.#options;
    this.#hurry = new AbortController();
    if (this.#waiters.size > 0) this.#hurry.abort();
    await clock.sleep(waitMs, AbortSignal.any([this.#hurry.signal, this.#ended.signal]));
    await clock.sleep(
      Math.max(0, Math.min(waitMs, triedAt + SHORTEST_GAP_MS - readMonotonic(clock))),
      this.#ended.signal,
    );
  }

  async #connect(signal: AbortSignal): Promise<McpConnection> {
    if (this.#current) return this.#current;
    if (this.#ended.signal.aborted) throw new Error("closed");
    const waiter: Waiter = Promise.withResolvers();
    this.#waiters.add(waiter);
    this.start();
    this.#hurry.abort();
    return raceAbort(waiter.promise, signal).finally(() => this.#waiters.delete(waiter));
  }

  /** Waits for the server, through attempts that fail. */
  async #reach(signal: AbortSignal): Promise<McpConnection> {
    while (!signal.aborted && !this.#ended.signal.aborted) {
      const connection = await this.#connect(signal).catch(() => undefined);
      if (connection) return connection;
    }
    throw new Error(`mcp.servers.${this.#options.name} is not connected; the tool was not called`);
  }

  #settle(act: (waiter: Waiter) => void): void {
    const all = [...this.#waiters];
    this.#waiters.clear();
    for (const waiter of all) act(waiter);
  }
}
