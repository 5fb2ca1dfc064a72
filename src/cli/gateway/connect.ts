import { hc } from "hono/client";
import { stateSecret } from "../../config/state.ts";
import { RouseError, type ErrorCode, type Issue } from "../../core/errors.ts";
import type { AdminApp } from "../../http/admin/app.ts";
import { readGateway } from "../../store/lock.ts";
import type { CliIo } from "../io.ts";
import { createCommandLogger } from "../log.ts";
import type { CommonOptions } from "../options.ts";
import { printAnsweredBy } from "../print.ts";
import { findStateDir, loadSettings, toSnapshotOptions } from "../settings.ts";

/** The admin routes with the types of their queries, bodies and answers. A failure throws a RouseError. */
export type AdminClient = ReturnType<typeof createClient>;

/** A way to the admin routes: of the gateway that runs, or of one made for this command alone. */
export interface GatewayConnection {
  /** True if a gateway runs. */
  readonly live: boolean;
  readonly stateDir: string;
  /** The config file of a gateway that runs; null if it runs on the defaults. */
  readonly config?: string | null;
  readonly api: AdminClient;
  /** Starts the indexing of documents for this command. False if the gateway that runs has no workers. */
  indexDocuments(): Promise<boolean>;
  close(): Promise<void>;
}

/** The time that a command waits for another command that holds the state folder. */
const BUSY_MS = 5_000;

async function readFailure(response: Response): Promise<RouseError> {
  const answer = (await response.json().catch(() => undefined)) as
    | { error?: { code?: ErrorCode; message?: string; issues?: Issue[] } }
    | undefined;
  const {
    code = "internal",
    message = `the gateway answered ${response.status}`,
    issues,
  } = answer?.error ?? {};
  if (code === "unauthorized")
    return new RouseError({
      code,
      message: "the running gateway does not take the token of its state folder: restart it",
    });
  return new RouseError(issues ? { code, message, issues } : { code, message });
}

function createClient(url: string, token: string, send: (request: Request) => Promise<Response>) {
  return hc<AdminApp>(`${url}/admin/v1`, {
    headers: { authorization: `Bearer ${token}` },
    async fetch(address: string | URL | Request, init?: RequestInit) {
      const response = await send(new Request(address, init));
      if (!response.ok) throw await readFailure(response);
      return response;
    },
  });
}

/** Reads an answer of an admin route. */
export async function read<T>(answer: Promise<{ json(): Promise<T> }>): Promise<T> {
  const { ok: _ok, ...value } = (await (await answer).json()) as T & { ok: boolean };
  return value as T;
}

/** Reads an answer that has one JSON document a line, as they come. It ends early when `signal` aborts. */
export async function* readLines<Line>(
  answer: Promise<{ body: ReadableStream | null }>,
  signal?: AbortSignal,
): AsyncGenerator<Line> {
  const body = (await answer).body as ReadableStream<Uint8Array<ArrayBuffer>> | null;
  if (!body) return;
  let rest = "";
  try {
    const texts = body.pipeThrough(new TextDecoderStream(), signal ? { signal } : {});
    for await (const text of texts) {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line !== "") yield JSON.parse(line) as Line;
    }
  } catch (error) {
    if (!signal?.aborted) throw error;
  }
}

async function inProcess(
  stateDir: string,
  options: CommonOptions,
  io: CliIo,
): Promise<GatewayConnection> {
  const { openGateway } = await import("../../gateway/gateway.ts");
  const gateway = await openGateway({
    ...toSnapshotOptions(options, io),
    // A command's user did not ask for the gateway's log.
    log: createCommandLogger(options, io),
    print: (text) => io.err(text),
  });
  const api = createClient("http://localhost", gateway.operatorToken, (request) =>
    gateway.fetch(request),
  );
  return {
    live: false,
    stateDir,
    api,
    indexDocuments: () => gateway.indexDocuments().then(() => true),
    close: () => gateway.stop(),
  };
}

/**
 * Connects to the running gateway; undefined if none runs. All it takes is what that gateway wrote into its state folder: its secrets may
 * be where only the service can read them, and its config may be broken since it started.
 */
export async function connectRunning(
  options: CommonOptions,
  io: CliIo,
): Promise<GatewayConnection | undefined> {
  const stateDir = await findStateDir(options, io);
  if (stateDir === undefined) return undefined;
  const { adminUrl: url, config } = readGateway(stateDir) ?? {};
  if (url === undefined) return undefined;
  const api = createClient(url, await stateSecret(stateDir, "gateway-token"), (request) =>
    fetch(request).catch((cause: unknown) => {
      const message = `the gateway does not answer at ${url}`;
      throw new RouseError({ code: "internal", message }, { cause });
    }),
  );
  return {
    live: true,
    stateDir,
    ...(config === undefined ? {} : { config }),
    api,
    indexDocuments: async () => (await read(api.status.$get())).status.workers,
    close: async () => undefined,
  };
}

/**
 * Connects to the running gateway, for what nothing else can do.
 * @throws RouseError `internal` if none runs.
 */
export async function connectGateway(
  options: CommonOptions,
  io: CliIo,
): Promise<GatewayConnection> {
  const to = await connectRunning(options, io);
  if (to) return to;
  const message = "no gateway runs on this config; start one with `rouse start`";
  throw new RouseError({ code: "internal", message });
}

/**
 * Connects to the running gateway, or opens the store if none runs. Both ways answer alike.
 * @throws RouseError `config_invalid`, or `store_locked` while another command holds the state folder for long.
 */
async function connect(options: CommonOptions, io: CliIo): Promise<GatewayConnection> {
  const until = io.now() + BUSY_MS;
  for (;;) {
    const running = await connectRunning(options, io);
    if (running) return running;
    const { stateDir } = await loadSettings(options, io);
    try {
      return await inProcess(stateDir, options, io);
    } catch (error) {
      if (!(error instanceof RouseError) || error.code !== "store_locked" || io.now() > until)
        throw error;
      await new Promise((done) => setTimeout(done, 100));
    }
  }
}

/** Connects, says which config answers if a gateway runs, does the work, and closes whatever happens. */
export async function connected<T>(
  options: CommonOptions,
  io: CliIo,
  work: (to: GatewayConnection) => Promise<T>,
): Promise<T> {
  const to = await connect(options, io);
  io.live = to.live;
  if (to.config !== undefined)
    printAnsweredBy(io, to.config, "the running gateway", options.json === true);
  try {
    return await work(to);
  } finally {
    await to.close();
  }
}

/** The parameter of a route that names a record. */
export const withId = (id: string): { param: { id: string } } => ({
  param: { id: encodeURIComponent(id) },
});
