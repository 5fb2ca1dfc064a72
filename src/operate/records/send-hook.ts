import { didYouMean } from "../../config/suggest.ts";
import { RouseError } from "../../core/errors.ts";
import { getDuplicateRule } from "../../intake/signatures/duplicate.ts";
import { loadScheme } from "../../intake/signatures/load.ts";
import { asNewEvent, signRequest, type UnsignedRequest } from "../../intake/signatures/sign.ts";
import type { Snapshot } from "../../intake/types.ts";
import { readMappings } from "../../mapping/catalog.ts";
import { PRESETS_DIR, SCHEMES_DIR } from "../../mapping/presets.ts";
import { eventHeaders, readSample, sampleNames, type Sample } from "../../mapping/samples.ts";
import type { PresetEntry } from "../../mapping/source.ts";
import type { PathRules } from "../../mapping/types.ts";
import type { AdminDeps } from "../types.ts";
import { found, refuse } from "./operation.ts";

/** A request that a path's sender would post. */
interface HookToSend {
  path: string;
  body: Buffer;
  /** The name of a recorded body of the path's preset, in place of `body`. */
  sample?: string | undefined;
  /** The event that the headers name, as its sender names it. */
  event?: string | undefined;
  headers: Readonly<Record<string, string>>;
}

/** A path of hooks, and what requests to it need. */
interface Target {
  /** The path below `hooks.path`. */
  path: string;
  rules: PathRules | undefined;
  /** The name of the preset whose mappings are on the path, else the path's. */
  preset: string;
  /** The preset of this name, if there is one. */
  entry: PresetEntry | undefined;
}

function findTarget(path: string, { mappings, config, offers }: Snapshot): Target {
  const rules = mappings.rules.get(path);
  const { auth } = rules ?? {};
  const onPath = mappings.mappings.filter(({ paths }) => paths.includes(path));
  const origin = onPath.find((mapping) => mapping.origin.startsWith("preset:"))?.origin;
  // A preset that was copied into a mapping file keeps its scheme, whose name is the preset's.
  const scheme =
    auth && "scheme" in auth && typeof auth.scheme === "string" ? auth.scheme : undefined;
  const preset = origin?.slice("preset:".length) ?? scheme ?? path;
  const { mappingsDir } = config.hooks;
  const pluginPresets = offers.presets;
  const { presets } = readMappings({ presetsDir: PRESETS_DIR, mappingsDir, pluginPresets });
  return { path, rules, preset, entry: presets.get(preset)?.[0] };
}

const listSampleNames = ({ entry }: Target): string[] => (entry ? sampleNames(entry) : []);

/** Lists the recorded bodies of a path's preset. `ready` is false while the path has no secret to sign them with. */
export function listSamples({ snapshot }: AdminDeps, path: string) {
  const target = findTarget(path, snapshot());
  const { auth } = target.rules ?? {};
  const isPending = auth && "scheme" in auth && [auth.secret].flat().includes("pending");
  return { path, preset: target.preset, samples: listSampleNames(target), ready: !isPending };
}

/** @throws RouseError `usage` if the path's preset has no recorded body of this name. */
function findSample(target: Target, name: string): Sample {
  const sample = target.entry && readSample(target.entry, name);
  if (sample) return sample;
  const names = listSampleNames(target);
  return refuse(
    `the preset "${target.preset}" has no sample "${name}".${didYouMean(name, names)} It has: ${names.join(", ")}`,
  );
}

/** The headers by which the sender names an event. */
function nameEvent({ path, entry }: Target, event: string): Record<string, string> {
  const headers = entry && eventHeaders(entry, event);
  return (
    headers ??
    refuse(
      `event: no preset on the path "${path}" says how its sender names events in a header; the body alone counts there`,
    )
  );
}

const first = (secret: string | readonly string[]): string =>
  typeof secret === "string" ? secret : (secret[0] ?? "");

/** The request with what its path's authentication wants: a token, a password, or a signature made as the sender makes it. */
function authenticate(
  { path, rules }: Target,
  request: UnsignedRequest,
  isSample: boolean,
  { snapshot, reloader, clock }: AdminDeps,
): UnsignedRequest {
  const { config, offers } = snapshot();
  const { auth = { token: config.hooks.token ?? reloader.keptToken() } } = rules ?? {};
  const withHeader = (authorization: string): UnsignedRequest => ({
    ...request,
    headers: { ...request.headers, authorization },
  });
  if ("token" in auth) return withHeader(`Bearer ${first(auth.token)}`);
  if ("user" in auth)
    return withHeader(`Basic ${Buffer.from(`${auth.user}:${auth.password}`).toString("base64")}`);
  const sources = { dir: SCHEMES_DIR, plugins: offers.schemes };
  const loaded =
    typeof auth.scheme === "string"
      ? loadScheme(sources, auth.scheme, `${rules?.authAt}.scheme`)
      : { ok: true as const, scheme: auth.scheme };
  if (!loaded.ok)
    throw new RouseError({
      code: "config_invalid",
      message: "the config has problems:",
      issues: loaded.issues,
    });
  const rule = getDuplicateRule(loaded.scheme, auth.duplicate);
  const fresh = isSample ? asNewEvent(loaded.scheme, rule, request) : request;
  const signed = signRequest(loaded.scheme, first(auth.secret ?? ""), fresh, clock.now());
  if (signed.ok) return signed.request;
  return refuse(
    `a request to the path "${path}" cannot be signed here: ${signed.message}. \`rouse hooks test --path ${path}\` shows what a body would become`,
  );
}

function readAnswer(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * Posts a body to this gateway as the path's sender would. `replayed`: the answer is the one that the same event got before.
 * @throws RouseError `usage` if there is no such sample or event, or the request cannot be signed.
 */
export async function sendHook(
  deps: AdminDeps,
  { path, body, sample: sampleName, event: named, headers }: HookToSend,
) {
  const { hooks, gateway } = deps.snapshot().config;
  const failure = { code: "internal" as const, message: "the gateway does not listen" };
  const url = found(deps.status().url, failure);
  const target = findTarget(path, deps.snapshot());
  const sample = sampleName === undefined ? undefined : findSample(target, sampleName);
  const ofSample = sample && target.entry && eventHeaders(target.entry, sample.event);
  const at = `${hooks.path}/${path.split("/").map(encodeURIComponent).join("/")}`;
  const request: UnsignedRequest = {
    // Senders that sign the address sign the public one.
    url: (gateway.publicUrl?.replace(/\/$/, "") ?? url) + at,
    headers: {
      "content-type": sample?.contentType ?? "application/json",
      ...(named === undefined ? ofSample : nameEvent(target, named)),
      ...Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]),
      ),
    },
    raw: sample ? Buffer.from(sample.body) : body,
  };
  const signed = authenticate(target, request, sample !== undefined, deps);
  // Text is sent in UTF-8, of which a header has a character for each byte.
  const encoded = Object.entries(signed.headers).map(([name, value]): [string, string] => [
    name,
    Buffer.from(value).toString("latin1"),
  ]);
  const response = await deps.options.fetch(url + at + new URL(signed.url).search, {
    method: "POST",
    headers: encoded,
    body: new Uint8Array(signed.raw),
  });
  return {
    status: response.status,
    requestId: response.headers.get("x-request-id"),
    replayed: response.headers.has("idempotent-replayed"),
    answer: readAnswer(await response.text()),
  };
}
