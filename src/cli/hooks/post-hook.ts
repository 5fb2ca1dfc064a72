import { stateSecret } from "../../config/state.ts";
import { didYouMean } from "../../config/suggest.ts";
import { RouseError } from "../../core/errors.ts";
import { getDuplicateRule } from "../../intake/signatures/duplicate.ts";
import { loadScheme } from "../../intake/signatures/load.ts";
import { asNewEvent, signRequest, type UnsignedRequest } from "../../intake/signatures/sign.ts";
import { eventHeaders, readSample, sampleNames, type Sample } from "../../mapping/samples.ts";
import { usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { readInput } from "../options.ts";
import type { Settings } from "../settings.ts";
import type { Target } from "./find-presets.ts";

/** A request as a sender would post it, before it is authenticated. */
type HookRequest = Omit<UnsignedRequest, "url"> & {
  /** The body is a recorded one, so its event was posted before. */
  isSample: boolean;
};

/** Names a request's body and headers. */
interface RequestOptions {
  payload?: string | undefined;
  sample?: string | true | undefined;
  event?: string | undefined;
  header?: Record<string, string> | undefined;
  idempotencyKey?: string | undefined;
  wait?: string | undefined;
}

/** Finds a recorded body of the path's preset. @throws RouseError `usage` if it has none of this name. */
function findSample({ preset, entry }: Target, name: string): Sample {
  const sample = entry && readSample(entry, name);
  if (sample) return sample;
  const names = entry ? sampleNames(entry) : [];
  throw usage(
    `the preset "${preset}" has no sample "${name}".${didYouMean(name, names)} It has: ${names.join(", ")}`,
  );
}

/** Reads the body, and makes the headers that tell what it is. */
export async function readRequest(
  target: Target,
  { payload, sample: sampleName, ...options }: RequestOptions,
  io: CliIo,
): Promise<HookRequest> {
  const { name, entry } = target;
  const sample = typeof sampleName === "string" ? findSample(target, sampleName) : undefined;
  if (!sample && payload === undefined)
    throw usage("name a body with --payload, or a recorded one with --sample");
  const event = options.event ?? sample?.event;
  const named = event === undefined ? {} : entry && eventHeaders(entry, event);
  if (!named && options.event !== undefined)
    throw usage(
      `--event: no preset on the path "${name}" says how its sender names events in a header; the body alone counts there`,
    );
  const given = Object.entries(options.header ?? {}).map(([key, value]) => [
    key.toLowerCase(),
    value,
  ]);
  const headers: Record<string, string> = {
    "content-type": sample?.contentType ?? "application/json",
    ...named,
    ...(Object.fromEntries(given) as Record<string, string>),
  };
  if (options.idempotencyKey !== undefined) headers["idempotency-key"] = options.idempotencyKey;
  if (options.wait !== undefined) headers["prefer"] = `wait=${options.wait}`;
  return {
    headers,
    raw: sample ? Buffer.from(sample.body) : await readInput(payload ?? "", io),
    isSample: sample !== undefined,
  };
}

const first = (secret: string | readonly string[]): string =>
  typeof secret === "string" ? secret : (secret[0] ?? "");

/** The request with what its path's authentication wants: a token, a password, or a signature made as the sender makes it. */
async function authenticate(
  { name, rules, schemes }: Target,
  { isSample, ...request }: UnsignedRequest & HookRequest,
  { config, stateDir }: Settings,
  io: CliIo,
): Promise<UnsignedRequest> {
  const { auth } = rules ?? {};
  const withHeader = (authorization: string): UnsignedRequest => ({
    ...request,
    headers: { ...request.headers, authorization },
  });
  if (!auth) {
    const { token } = config.hooks;
    return withHeader(
      `Bearer ${token === undefined ? await stateSecret(stateDir, "hook-token") : first(token)}`,
    );
  }
  if ("token" in auth) return withHeader(`Bearer ${first(auth.token)}`);
  if ("user" in auth)
    return withHeader(`Basic ${Buffer.from(`${auth.user}:${auth.password}`).toString("base64")}`);
  const loaded =
    typeof auth.scheme === "string"
      ? loadScheme(schemes, auth.scheme, `${rules?.authAt}.scheme`)
      : { ok: true as const, scheme: auth.scheme };
  if (!loaded.ok)
    throw new RouseError({
      code: "config_invalid",
      message: "the config has problems:",
      issues: loaded.issues,
    });
  const rule = getDuplicateRule(loaded.scheme, auth.duplicate);
  const fresh = isSample ? asNewEvent(loaded.scheme, rule, request) : request;
  const signed = signRequest(loaded.scheme, first(auth.secret ?? ""), fresh, io.now());
  if (signed.ok) return signed.request;
  throw usage(
    `a request to the path "${name}" cannot be signed here: ${signed.message}. \`rouse hooks test --path ${name}\` shows what a body would become`,
  );
}

/** The answer of a gateway. `replayed`: as it had answered the same event before. */
export interface SentHook {
  status: number;
  requestId: string | null;
  replayed: boolean;
  answer: unknown;
}

function shown(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Posts to a path of a gateway at `http://<host>:<port>` as the path's sender would. */
export async function postHook(
  target: Target,
  hook: HookRequest,
  url: string,
  settings: Settings,
  io: CliIo,
): Promise<SentHook> {
  const { hooks, gateway } = settings.config;
  const path = `${hooks.path}/${target.name.split("/").map(encodeURIComponent).join("/")}`;
  // Senders that sign the address sign the public one.
  const plain = { ...hook, url: (gateway.publicUrl?.replace(/\/$/, "") ?? url) + path };
  const request = await authenticate(target, plain, settings, io);
  const { search } = new URL(request.url);
  const response = await fetch(url + path + search, {
    method: "POST",
    headers: request.headers,
    body: new Uint8Array(request.raw),
  });
  return {
    status: response.status,
    requestId: response.headers.get("x-request-id"),
    replayed: response.headers.has("idempotent-replayed"),
    answer: shown(await response.text()),
  };
}
