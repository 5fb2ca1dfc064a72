import type { Config } from "../config/schema/index.ts";
import { stateSecret } from "../config/state.ts";
import { RouseError } from "../core/errors.ts";
import { readGateway } from "../store/lock.ts";
import { usage } from "./failure.ts";
import { EXIT, type CliIo } from "./io.ts";
import { readInput, type CommonOptions } from "./options.ts";
import { printJson } from "./print.ts";
import { loadSettings } from "./settings.ts";
import { printable } from "./text.ts";

export interface SendOptions extends CommonOptions {
  payload: string;
  header?: Record<string, string>;
  contentType: string;
  idempotencyKey?: string;
  wait?: string;
}

const first = (secret: string | string[]): string => (typeof secret === "string" ? secret : (secret[0] ?? ""));

/** The header by which callers of a path are believed, from the config's own mappings; else the hook token. */
export async function authorization(name: string, config: Config, stateDir: string): Promise<string> {
  const own = config.hooks.mappings.find(({ auth, match }) => auth !== undefined && [match.path].flat().includes(name))?.auth;
  if (own && "token" in own) return `Bearer ${first(own.token)}`;
  if (own && "user" in own) return `Basic ${Buffer.from(`${own.user}:${own.password}`).toString("base64")}`;
  if (own)
    throw usage(
      `the path ${name} believes signatures only, which this command cannot make; \`rouse hooks test\` shows what a body would become`,
    );
  const token = config.hooks.token === undefined ? await stateSecret(stateDir, "hook-token") : first(config.hooks.token);
  return `Bearer ${token}`;
}

function shown(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A 2xx that says otherwise: no mapping matched, the mapping failed, or the run that was waited for failed. */
function cameToNothing(answer: unknown): boolean {
  if (typeof answer !== "object" || answer === null) return false;
  const { ok, outcome } = answer as { ok?: unknown; outcome?: unknown };
  return ok === false || outcome === "unmatched" || outcome === "failed";
}

/** `rouse hooks send`: posts to the gateway that runs. Exit code 1 for a 4xx or 5xx, an event that made no work, or a failed run. */
export async function sendHook(name: string, options: SendOptions, io: CliIo): Promise<void> {
  if (options.wait !== undefined && !/^\d+$/.test(options.wait)) throw usage("--wait: write whole seconds");
  const body = await readInput(options.payload, io);
  const { config, stateDir } = await loadSettings(options, io);
  const running = readGateway(stateDir);
  if (running?.url === undefined)
    throw new RouseError({ code: "internal", message: `no gateway runs on ${stateDir}; start one with \`rouse start\`` });
  const headers: Record<string, string> = {
    ...options.header,
    "content-type": options.contentType,
    authorization: await authorization(name, config, stateDir),
  };
  if (options.idempotencyKey !== undefined) headers["idempotency-key"] = options.idempotencyKey;
  if (options.wait !== undefined) headers["prefer"] = `wait=${options.wait}`;
  const path = name.split("/").map(encodeURIComponent).join("/");
  const response = await fetch(`${running.url}${config.hooks.path}/${path}`, { method: "POST", headers, body: new Uint8Array(body) });
  const answer = shown(await response.text());
  if (!response.ok || cameToNothing(answer)) io.exitCode = EXIT.failure;
  if (options.json) return printJson(io, { status: response.status, requestId: response.headers.get("x-request-id"), answer });
  io.out(
    `${response.status}${response.headers.has("idempotent-replayed") ? " (answered before)" : ""}  ${response.headers.get("x-request-id") ?? ""}\n`,
  );
  if (answer !== "") io.out(`${printable(typeof answer === "string" ? answer : JSON.stringify(answer, null, 2))}\n`);
}
