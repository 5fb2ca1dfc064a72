import { Readable } from "node:stream";
import { stateSecret } from "../config/state.ts";
import { RouseError, type ErrorCode, type Issue } from "../core/errors.ts";
import type { AdminAnswers, ChatLine, ReplayLine } from "../http/admin-types.ts";
import { readGateway } from "../store/lock.ts";
import { SYSTEM, type CliIo } from "./io.ts";
import { createCommandLogger } from "./log.ts";
import type { CommonOptions } from "./options.ts";
import { printAnsweredBy } from "./print.ts";
import { loadSettings, stateDirOfBroken } from "./settings.ts";

/** A way to the admin routes: of the gateway that runs, or of one made for this command alone. */
export interface Connection {
  /** True where a gateway runs. */
  readonly live: boolean;
  readonly stateDir: string;
  /** The config file of a gateway that runs; null if it runs on the defaults. */
  readonly config?: string | null;
  /**
   * Asks an admin route, by its path below `/admin/v1/`.
   * @throws RouseError with the answer's code, message and issues.
   */
  request<K extends keyof AdminAnswers>(
    route: K,
    method: "GET" | "POST" | "DELETE",
    path: string,
    body?: unknown,
  ): Promise<AdminAnswers[K]>;
  /** The same where the answer has nothing in it but that it worked. */
  send(method: "POST" | "DELETE", path: string, body?: unknown): Promise<void>;
  /** Sends bytes as they come. */
  upload<K extends keyof AdminAnswers>(route: K, path: string, bytes: Readable): Promise<AdminAnswers[K]>;
  /** The lines of an answer that has one JSON document a line, as they come. */
  lines<Line extends ReplayLine | ChatLine>(path: string, body: unknown): AsyncGenerator<Line>;
  close(): Promise<void>;
}

type Send = (path: string, init: RequestInit) => Promise<Response>;

/** How long a command waits for another one that holds the state folder. */
const BUSY_MS = 5_000;

async function failureOf(response: Response): Promise<RouseError> {
  const answer = (await response.json().catch(() => undefined)) as
    | { error?: { code?: ErrorCode; message?: string; issues?: Issue[] } }
    | undefined;
  const { code = "internal", message = `the gateway answered ${response.status}`, issues } = answer?.error ?? {};
  if (code === "unauthorized")
    return new RouseError({ code, message: "the running gateway has another gateway.token: it was started with another config" });
  return new RouseError(issues ? { code, message, issues } : { code, message });
}

async function* linesOf<Line>(response: Response): AsyncGenerator<Line> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of response.body ?? []) {
    const lines = (rest + decoder.decode(chunk as Uint8Array, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line !== "") yield JSON.parse(line) as Line;
  }
}

type Ends = Pick<Connection, "live" | "stateDir" | "config" | "close"> & { send: Send };

function connection(ends: Ends): Connection {
  const send = async (path: string, init: RequestInit): Promise<Response> => {
    const response = await ends.send(path, init);
    if (!response.ok) throw await failureOf(response);
    return response;
  };
  const ask = (method: string, path: string, body: unknown): Promise<Response> => {
    const headers: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
    return send(path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  };
  // What a route answers is written down once, in AdminAnswers; both ends are compiled from it.
  const read = async <K extends keyof AdminAnswers>(response: Response): Promise<AdminAnswers[K]> => {
    const { ok: _ok, ...answer } = (await response.json()) as { ok: boolean };
    return answer as unknown as AdminAnswers[K];
  };
  return {
    live: ends.live,
    stateDir: ends.stateDir,
    ...(ends.config === undefined ? {} : { config: ends.config }),
    request: async (_route, method, path, body) => read<typeof _route>(await ask(method, path, body)),
    async upload(_route, path, bytes) {
      const headers = { "content-type": "application/octet-stream" };
      const init = { method: "POST", headers, body: Readable.toWeb(bytes) as ReadableStream<Uint8Array>, duplex: "half" as const };
      return read<typeof _route>(await send(path, init).finally(() => bytes.destroy()));
    },
    async send(method, path, body) {
      await (await ask(method, path, body)).body?.cancel();
    },
    async *lines<Line extends ReplayLine | ChatLine>(path: string, body: unknown): AsyncGenerator<Line> {
      yield* linesOf<Line>(await ask("POST", path, body));
    },
    close: () => ends.close(),
  };
}

/** Where a running gateway is asked, and the config it runs on. */
interface Running {
  url: string;
  config: string | null | undefined;
}

function findRunning(stateDir: string): Running | undefined {
  const { adminUrl: url, config } = readGateway(stateDir) ?? {};
  return url === undefined ? undefined : { url, config };
}

function toRunning(stateDir: string, { url, config }: Running, token: string): Connection {
  const send: Send = async (path, init) => {
    const headers = { ...(init.headers as Record<string, string>), authorization: `Bearer ${token}` };
    try {
      return await fetch(`${url}/admin/v1/${path}`, { ...init, headers });
    } catch (error) {
      throw new RouseError({ code: "internal", message: `the gateway does not answer at ${url}` }, { cause: error });
    }
  };
  return connection({ live: true, stateDir, ...(config === undefined ? {} : { config }), send, close: async () => undefined });
}

async function inProcess(stateDir: string, options: CommonOptions, io: CliIo): Promise<Connection> {
  const { createGateway } = await import("../gateway/gateway.ts");
  const gateway = await createGateway({
    ...SYSTEM,
    ...(options.config === undefined ? {} : { configFile: options.config }),
    cwd: io.cwd,
    env: io.env,
    // What the gateway tells its log is nothing that a command's user asked for.
    log: createCommandLogger(options, io),
    print: (text) => io.err(text),
  });
  const send: Send = (path, init) => {
    const headers = { ...(init.headers as Record<string, string>), authorization: `Bearer ${gateway.operatorToken}` };
    return gateway.fetch(new Request(`http://localhost/admin/v1/${path}`, { ...init, headers }));
  };
  return connection({ live: false, stateDir, send, close: () => gateway.stop() });
}

async function tokenOf(stateDir: string, configured: string | undefined): Promise<string> {
  return configured ?? stateSecret(stateDir, "gateway-token");
}

/** A gateway that runs on the config before the one that is broken now. */
async function connectDespite(error: unknown, options: CommonOptions, io: CliIo): Promise<Connection> {
  const stateDir = await stateDirOfBroken(options, io);
  const running = stateDir === undefined ? undefined : findRunning(stateDir);
  if (stateDir === undefined || !running) throw error;
  return toRunning(stateDir, running, await tokenOf(stateDir, undefined));
}

/** Connects to the running gateway; undefined where none runs. */
export async function connectRunning(options: CommonOptions, io: CliIo): Promise<Connection | undefined> {
  const { stateDir, config } = await loadSettings(options, io);
  const running = findRunning(stateDir);
  return running && toRunning(stateDir, running, await tokenOf(stateDir, config.gateway.token));
}

/**
 * Connects to the running gateway, or opens the store where none runs. Both ways answer alike.
 * @throws RouseError `config_invalid`, or `store_locked` while another command holds the state folder for long.
 */
async function connect(options: CommonOptions, io: CliIo): Promise<Connection> {
  const settings = await loadSettings(options, io).catch((error: unknown) => error);
  if (settings instanceof Error) return connectDespite(settings, options, io);
  const { stateDir, config } = settings as Awaited<ReturnType<typeof loadSettings>>;
  const until = io.now() + BUSY_MS;
  for (;;) {
    const running = findRunning(stateDir);
    if (running) return toRunning(stateDir, running, await tokenOf(stateDir, config.gateway.token));
    try {
      return await inProcess(stateDir, options, io);
    } catch (error) {
      if (!(error instanceof RouseError) || error.code !== "store_locked" || io.now() > until) throw error;
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}

/** Connects, says which config answers where a gateway runs, does the work, and closes whatever happens. */
export async function connected<T>(options: CommonOptions, io: CliIo, work: (to: Connection) => Promise<T>): Promise<T> {
  const to = await connect(options, io);
  if (to.config !== undefined) printAnsweredBy(io, to.config, "the running gateway", options.json === true);
  try {
    return await work(to);
  } finally {
    await to.close();
  }
}
