import type { REST } from "@discordjs/rest";
import { neverConnected, type PluginContext } from "#plugin";
import type { Config } from "./index.ts";

/** Two tries with it fit into the time that the gateway gives a send. */
const TIMEOUT_MS = 12_000;
const DEFAULT_WAIT_MS = 5_000;
/** What Discord's error codes mean. */
const CODES: Record<string, string> = {
  "10003": "unknown channel",
  "10008": "unknown message",
  "10013": "unknown user",
  "50001": "the bot has no access to the channel",
  "50006": "empty message",
  "50007": "the user takes no messages from the bot",
  "50013": "the bot may not write there",
  "50035": "not a valid message",
  "50083": "the thread is archived",
  "50278": "the user shares no server with the bot",
};

/** Thrown where the SDK is not installed, or broken. */
export class MissingPackage extends Error {
  override name = "MissingPackage";
}

/** Loads a package that may not be there. */
export async function loadPackage<T>(name: string, load: () => Promise<T>): Promise<T> {
  return load().catch((error: unknown) => {
    const missing = (error as { code?: unknown }).code === "ERR_MODULE_NOT_FOUND";
    throw new MissingPackage(missing ? `install ${name} (npm install ${name})` : `${name} could not be loaded`, { cause: error });
  });
}

/** The SDK; tests put another in its place. */
export type Load = () => Promise<{ REST: typeof REST }>;
const loadSdk: Load = () => import("@discordjs/rest");

/** The client of the HTTP API, made when first needed. It repeats nothing by itself: the outbox does, and forgets nothing. */
export function createClient(
  { config, fetch }: Pick<PluginContext<Config>, "config" | "fetch">,
  load: Load = loadSdk,
): () => Promise<REST> {
  let client: Promise<REST> | undefined;
  const make = async (): Promise<REST> => {
    const sdk = await loadPackage("@discordjs/rest", load);
    // The SDK's own `fetch` is another copy of the platform's, with the same shape.
    const makeRequest = fetch as unknown as REST["options"]["makeRequest"];
    return new sdk.REST({
      api: config.apiUrl.replace(/\/+$/, ""),
      version: "10",
      retries: 0,
      rejectOnRateLimit: () => true,
      timeout: TIMEOUT_MS,
      makeRequest,
    });
  };
  return async () => {
    client ??= make().catch((error: unknown) => {
      client = undefined;
      throw error;
    });
    // The SDK forgets the token at the first 401, also where that was a passing fault.
    return (await client).setToken(config.token);
  };
}

interface ApiError {
  status?: unknown;
  code?: unknown;
  name?: unknown;
  retryAfter?: unknown;
  cause?: { code?: unknown };
}

/** What an error of the SDK means: what Discord answered, what it wants waited, or that nothing was written. */
export interface Problem {
  /** A line for the operator: no text, no token, no address. */
  reason: string;
  status?: number;
  code?: string;
  afterMs?: number;
  kind: "missing" | "limited" | "answered" | "not written" | "cut";
}

/** Sorts an error of the SDK. */
export function problemOf(error: unknown): Problem {
  if (error instanceof MissingPackage) return { kind: "missing", reason: error.message };
  const { status, code, name, retryAfter, cause } = (typeof error === "object" && error !== null ? error : {}) as ApiError;
  if (typeof retryAfter === "number") {
    return {
      kind: "limited",
      reason: "discord answered 429",
      status: 429,
      afterMs: retryAfter > 0 ? Math.ceil(retryAfter) : DEFAULT_WAIT_MS,
    };
  }
  if (typeof status === "number") {
    const known = CODES[String(code)];
    const reason = status === 401 ? "discord does not know the bot token (401)" : `discord answered ${status}${known ? ` (${known})` : ""}`;
    return { kind: "answered", reason, status, code: String(code) };
  }
  const below = typeof cause?.code === "string" ? cause.code : typeof code === "string" ? code : undefined;
  if (below !== undefined && neverConnected(below)) return { kind: "not written", reason: `discord could not be reached (${below})` };
  const why = below ?? (name === "AbortError" ? "no answer in time" : "the connection was cut");
  return { kind: "cut", reason: `discord gave no answer (${why})` };
}
