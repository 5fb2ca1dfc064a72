import { stateSecret } from "../../config/state.ts";
import { didYouMean } from "../../config/suggest.ts";
import { RouseError } from "../../core/errors.ts";
import { BUILTIN_PLUGINS } from "../../plugin/locations.ts";
import { readMappings } from "../../mapping/catalog.ts";
import { PRESETS_DIR, SCHEMES_DIR } from "../../mapping/presets.ts";
import type { PresetEntry } from "../../mapping/source.ts";
import { eventHeaders, findPath, readSample, sampleNames } from "../../mapping/samples.ts";
import type { PathRules } from "../../mapping/types.ts";
import { loadPluginOffers } from "../../plugin/commands.ts";
import { getDuplicateRule } from "../../intake/signatures/duplicate.ts";
import { loadScheme, type SchemeSources } from "../../intake/signatures/load.ts";
import { asNewEvent, signRequest, type UnsignedRequest } from "../../intake/signatures/sign.ts";
import { readGateway } from "../../store/lock.ts";
import { answering, type Given } from "../command.ts";
import { usage } from "../failure.ts";
import type { CliIo } from "../io.ts";
import { readInput } from "../options.ts";
import { loadSettings, type Settings } from "../settings.ts";
import { printable } from "../text.ts";

const SEND_OPTIONS = {
  "--payload <file>": "the body; - reads standard input",
  "--sample [event]": "a recorded body of the path's preset instead; without a name, list them",
  "--event <name>": "set the headers by which the preset's sender names this event",
  "--header <name=value>": {
    about: "a header of the request, such as content-type=text/plain (repeatable)",
    repeat: "pairs",
  },
  "--idempotency-key <key>": "a repeat with the same key is answered alike",
  "--wait <seconds>": "wait for the run's reply; only for the path agent",
} as const;
type SendOptions = Given<typeof SEND_OPTIONS>;

const first = (secret: string | readonly string[]): string =>
  typeof secret === "string" ? secret : (secret[0] ?? "");

/** How a gateway answered. `replayed`: as it had answered the same event before. */
export interface SentHook {
  status: number;
  requestId: string | null;
  replayed: boolean;
  answer: unknown;
}

interface Target {
  /** The path below `hooks.path`. */
  name: string;
  rules: PathRules | undefined;
  /** The name of the preset whose mappings are on the path, else the path's. */
  preset: string;
  /** The preset of this name, if there is one. */
  entry: PresetEntry | undefined;
  schemes: SchemeSources;
}

/** Finds what a path's requests need. */
export async function findTarget(
  name: string,
  { config, baseDir }: Settings,
  io: CliIo,
): Promise<Target> {
  const { hooks } = config;
  const { presets: pluginPresets, schemes } = await loadPluginOffers(BUILTIN_PLUGINS, {
    config,
    baseDir,
  });
  const places = { baseDir, mappingsDir: hooks.mappingsDir, presetsDir: PRESETS_DIR };
  const { rules, preset = name } = await findPath(name, {
    hooks,
    ...places,
    pluginPresets,
    env: io.env,
  });
  const { presets } = readMappings({ ...places, pluginPresets });
  return {
    name,
    rules,
    preset,
    entry: presets.get(preset)?.[0],
    schemes: { dir: SCHEMES_DIR, plugins: schemes },
  };
}

/** The request with what its path's authentication wants: a token, a password, or a signature made as the sender makes it. */
async function authenticate(
  target: Target,
  request: UnsignedRequest,
  { isSample, settings, io }: SendContext,
): Promise<UnsignedRequest> {
  const { auth } = target.rules ?? {};
  const withHeader = (authorization: string): UnsignedRequest => ({
    ...request,
    headers: { ...request.headers, authorization },
  });
  if (!auth) {
    const { token } = settings.config.hooks;
    return withHeader(
      `Bearer ${token === undefined ? await stateSecret(settings.stateDir, "hook-token") : first(token)}`,
    );
  }
  if ("token" in auth) return withHeader(`Bearer ${first(auth.token)}`);
  if ("user" in auth)
    return withHeader(`Basic ${Buffer.from(`${auth.user}:${auth.password}`).toString("base64")}`);
  const loaded =
    typeof auth.scheme === "string"
      ? loadScheme(target.schemes, auth.scheme, `${target.rules?.authAt}.scheme`)
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
  const hint = `\`rouse hooks test --path ${target.name}\` shows what a body would become`;
  throw usage(
    `a request to the path "${target.name}" cannot be signed here: ${signed.message}. ${hint}`,
  );
}

/** The body, and the headers that tell what it is. */
export async function readRequest(
  name: string,
  options: Partial<SendOptions>,
  settings: Settings,
  io: CliIo,
): Promise<Omit<UnsignedRequest, "url">> {
  const target = await findTarget(name, settings, io);
  const { preset, entry } = target;
  const sample =
    typeof options.sample === "string" && entry ? readSample(entry, options.sample) : undefined;
  if (typeof options.sample === "string" && !sample) {
    const names = entry ? sampleNames(entry) : [];
    throw usage(
      `the preset "${preset}" has no sample "${options.sample}".${didYouMean(options.sample, names)} It has: ${names.join(", ")}`,
    );
  }
  if (!sample && options.payload === undefined)
    throw usage("name a body with --payload, or a recorded one with --sample");
  const event = options.event ?? sample?.event;
  const named = event === undefined ? {} : entry && eventHeaders(entry, event);
  if (!named && options.event !== undefined)
    throw usage(
      `--event: no preset on the path "${target.name}" says how its sender names events in a header; the body alone counts there`,
    );
  const given = Object.fromEntries(
    Object.entries(options.header ?? {}).map(([name, value]) => [name.toLowerCase(), value]),
  );
  const headers: Record<string, string> = {
    "content-type": sample?.contentType ?? "application/json",
    ...named,
    ...given,
  };
  if (options.idempotencyKey !== undefined) headers["idempotency-key"] = options.idempotencyKey;
  if (options.wait !== undefined) headers["prefer"] = `wait=${options.wait}`;
  return {
    headers,
    raw: sample ? Buffer.from(sample.body) : await readInput(options.payload ?? "", io),
  };
}

interface SendContext {
  settings: Settings;
  /** `http://<host>:<port>` of the gateway. */
  url: string;
  isSample: boolean;
  io: CliIo;
}

function shown(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A 2xx that says otherwise: no mapping matched, the mapping failed, or the run that was waited for failed. */
function madeNoWork(answer: unknown): boolean {
  if (typeof answer !== "object" || answer === null) return false;
  const { ok, outcome } = answer as { ok?: unknown; outcome?: unknown };
  return ok === false || outcome === "unmatched" || outcome === "failed";
}

/** Posts to a path of a gateway as the path's sender would. */
export async function postHook(
  name: string,
  { headers, raw }: Omit<UnsignedRequest, "url">,
  { isSample = false, ...context }: Omit<SendContext, "isSample"> & { isSample?: boolean },
): Promise<SentHook> {
  const { settings, url, io } = context;
  const { hooks, gateway } = settings.config;
  const path = `${hooks.path}/${name.split("/").map(encodeURIComponent).join("/")}`;
  // Senders that sign the address sign the public one.
  const plain = { headers, raw, url: (gateway.publicUrl?.replace(/\/$/, "") ?? url) + path };
  const request = await authenticate(await findTarget(name, settings, io), plain, {
    ...context,
    isSample,
  });
  const { search } = new URL(request.url);
  const body = new Uint8Array(request.raw);
  const response = await fetch(url + path + search, {
    method: "POST",
    headers: request.headers,
    body,
  });
  return {
    status: response.status,
    requestId: response.headers.get("x-request-id"),
    replayed: response.headers.has("idempotent-replayed"),
    answer: shown(await response.text()),
  };
}

/** The address of the gateway that runs on a state folder. */
function runningUrl(stateDir: string): string {
  const { url } = readGateway(stateDir) ?? {};
  if (url !== undefined) return url;
  throw new RouseError({
    code: "internal",
    message: `no gateway runs on ${stateDir}; start one with \`rouse start\``,
  });
}

interface Samples {
  path: string;
  preset: string;
  samples: string[];
}

/** Posts to the gateway that runs, or lists what can be posted. */
async function sendHook(
  io: CliIo,
  options: SendOptions,
  name: string,
): Promise<SentHook | Samples> {
  if (options.wait !== undefined && !/^\d+$/.test(options.wait))
    throw usage("--wait: write whole seconds");
  if (options.payload !== undefined && options.sample !== undefined)
    throw usage("use --payload or --sample, not both");
  const settings = await loadSettings(options, io);
  if (options.sample === true) {
    const { preset, entry } = await findTarget(name, settings, io);
    return { path: name, preset, samples: entry ? sampleNames(entry) : [] };
  }
  const request = await readRequest(name, options, settings, io);
  const isSample = options.sample !== undefined;
  return postHook(name, request, { settings, url: runningUrl(settings.stateDir), isSample, io });
}

export const send = answering({
  usage: "send <name>",
  about:
    "post a body to the running gateway as its sender would: signed, or with the token of that path",
  examples: [
    "rouse hooks send shop --payload order.json --header x-shop-event=order",
    "rouse hooks send PRESET --sample EVENT",
    `echo '{"message":"Hello"}' | rouse hooks send agent --payload - --wait 60`,
  ],
  options: SEND_OPTIONS,
  answer: sendHook,
  isFailure: (sent) => "status" in sent && (sent.status >= 400 || madeNoWork(sent.answer)),
  print(sent, io) {
    if ("samples" in sent) {
      const { path, preset, samples } = sent;
      if (samples.length === 0)
        throw usage(`there are no samples for "${preset}"; post a body of your own with --payload`);
      for (const sample of samples) io.out(`rouse hooks send ${path} --sample ${sample}\n`);
      return;
    }
    const { status, replayed, requestId, answer } = sent;
    io.out(`${status}${replayed ? " (answered before)" : ""}  ${requestId ?? ""}\n`);
    const text = typeof answer === "string" ? answer : JSON.stringify(answer, null, 2);
    if (text !== "") io.out(`${printable(text)}\n`);
  },
});
