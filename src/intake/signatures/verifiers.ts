import type { SchemeAuth } from "../../config/schema/mapping.ts";
import type { Issue } from "../../core/errors.ts";
import { compileVerifier } from "./compile.ts";
import { findSchemeClashes, loadScheme, type SchemeSources } from "./load.ts";
import type {
  RefusalReason,
  RequestHead,
  SignedRequest,
  Verified,
  Verifier,
  VerifierOptions,
} from "./types.ts";
import type { HandshakeConfig, Scheme, SignatureSource } from "../../config/schema/signature.ts";
import { signsRequest } from "./duplicate.ts";
import { answerHandshake, readsBody } from "./handshake.ts";
import { signRequest } from "./sign.ts";
import { compileSigned } from "./signed.ts";

/** The time of the request that a scheme is tried with. */
const NOW = Date.UTC(2026, 0, 1);
const WHY: Partial<Record<RefusalReason, string>> = {
  no_signature: "no signature is found where `signature` says",
  too_many_signatures: "`signature` finds more than eight signatures: is `split` right?",
  no_timestamp: "no time of that `unit` is found where `timestamp.at` says",
  stale_timestamp: "the time is read with another unit than it is written with",
  wrong_body_hash: "the hash of the body is not found where `bodyHash` says",
};

/** Adds the objects and lists on the way to a place in the body, so that a value can be put there. */
function addPlace(body: Record<string, unknown>, path: string): void {
  const segments = path.split(".").slice(0, -1);
  let at = body;
  for (const segment of segments) {
    const name = segment.replace(/\[\]$/, "");
    const next = [at[name] ?? {}].flat()[0] as Record<string, unknown>;
    at[name] = name === segment ? next : [next];
    at = next;
  }
}

/** A request of the sender, as short as its scheme allows. */
function createSample(scheme: Scheme, url: string) {
  const body = {};
  const { signature, timestamp, id, bodyHash } = scheme;
  for (const source of [signature, timestamp?.at, ...(id ?? []), bodyHash])
    if (source?.body !== undefined) addPlace(body, source.body);
  return {
    url,
    headers: { "content-type": "application/json" },
    raw: Buffer.from(JSON.stringify(body)),
  };
}

/** Finds what no request of a scheme could satisfy, whatever it is. */
function findContradiction(scheme: Scheme): string | undefined {
  const { signature, timestamp, id } = scheme;
  const compiled = compileSigned(scheme.signed);
  if (!compiled.ok || !signsRequest(scheme) || scheme.algorithm === "x509") return undefined;
  const { names } = compiled.text;
  if (names.has("timestamp") && !timestamp)
    return "`signed` has {timestamp}, and no `timestamp` says where it stands";
  if (names.has("id") && !id) return "`signed` has {id}, and no `id` says where it stands";
  if (signature.body !== undefined && names.has("raw"))
    return "the signature stands in the body, which {raw} of `signed` covers: no body can have its own signature in it";
  return undefined;
}

/**
 * Signs a request as the command line does and verifies it as a request is, so that a scheme which no request fits is an
 * error before the sender's first request. Returns why it does not verify.
 */
function findSchemeProblem(scheme: Scheme, verifier: Verifier, url: string): string | undefined {
  const contradiction = findContradiction(scheme);
  if (contradiction) return contradiction;
  const [secret = ""] = verifier.secrets;
  const signed = signRequest(scheme, secret, createSample(scheme, url), NOW);
  // A config with only the sender's public key cannot sign.
  if (!signed.ok) return undefined;
  const { request } = signed;
  const query = Object.fromEntries(new URL(request.url).searchParams);
  const received: SignedRequest = { method: "POST", query, ...request };
  const verified = verifier.verify(received, NOW) as Verified;
  if (!verified.ok)
    return `a request that is signed as it says does not verify: ${WHY[verified.reason] ?? "the signature is of another text"}`;
  if (answerHandshake(verifier, received, false) ?? answerHandshake(verifier, received, true))
    return "a handshake answers every request of the sender, so that none becomes an event: narrow its `when`";
  return undefined;
}

const toKey = ({ header, query, body }: SignatureSource): string =>
  header !== undefined
    ? `header ${header.toLowerCase()}`
    : query !== undefined
      ? `query ${query}`
      : `body ${body}`;

/** Returns the parts that a request must have to be answered by a handshake; `*` is any value. */
function getConditions({ when, respond, confirm }: HandshakeConfig): Map<string, string> {
  const places = [respond.echo, respond.hmac?.of, confirm].flatMap((source) =>
    source ? [[toKey(source), "*"] as const] : [],
  );
  const named = (kind: "headers" | "query" | "body", place: "header" | "query" | "body") =>
    Object.entries(when[kind] ?? {}).map(
      ([name, wanted]) => [toKey({ [place]: name }), String(wanted)] as const,
    );
  return new Map([
    ...places,
    ...named("headers", "header"),
    ...named("query", "query"),
    ...named("body", "body"),
    ...(when.verifyToken === undefined ? [] : [[`token ${when.verifyToken}`, "*"] as const]),
    ...(when.pendingSecret ? [["pending", "*"] as const] : []),
    ...(when.bodyOnly ? [["only", "*"] as const] : []),
  ]);
}

/** Returns whether every request that the later handshake is for is answered by the earlier one. */
function hides(earlier: HandshakeConfig, later: HandshakeConfig): boolean {
  if (earlier.when.method !== later.when.method) return false;
  // An unsigned handshake echoes and signs less than a signed one.
  if (!earlier.signed && later.signed && (earlier.respond.echo ?? earlier.respond.hmac))
    return false;
  const has = getConditions(later);
  return [...getConditions(earlier)].every(
    ([key, wanted]) => has.has(key) && (wanted === "*" || wanted === has.get(key)),
  );
}

/** Finds why a handshake could never be answered. `methods` are those that the path takes as events. */
function findHandshakeProblem(
  handshake: HandshakeConfig,
  earlier: readonly HandshakeConfig[],
  methods: readonly string[],
): string | undefined {
  const { signed, when, respond } = handshake;
  const { method } = when;
  if (method !== "POST" && (readsBody(handshake) || handshake.confirm?.body !== undefined))
    return `can never be reached: a ${method} has no body`;
  if (signed && method !== "POST" && !methods.includes(method))
    return `can never be reached: a ${method} is answered before a signature is verified; use \`signed: false\``;
  if (signed && when.pendingSecret)
    return "can never be reached: while the secret is pending, no request is signed; use `signed: false`";
  if (when.bodyOnly && !when.body) return "`when.bodyOnly` needs `when.body`";
  if (!signed && method === "POST" && respond.hmac)
    return "would sign a text of anyone's: without a signature a POST can only be echoed";
  if (method === "POST" && getConditions(handshake).size === 0)
    return "answers every request, so that none becomes an event: add a condition to `when`";
  const hider = earlier.find((one) => hides(one, handshake));
  return hider && "can never be reached: an earlier handshake answers all of its requests";
}

/** Finds the handshakes of a scheme that could never be answered. `methods` are those that its path takes as events. */
function checkHandshakes({ handshakes }: Scheme, at: string, methods: readonly string[]): Issue[] {
  // Unsigned ones are tried first.
  const ordered = handshakes.toSorted((a, b) => Number(a.signed) - Number(b.signed));
  return ordered.flatMap((handshake, index): Issue[] => {
    const message = findHandshakeProblem(handshake, ordered.slice(0, index), methods);
    const path = `${at}.handshakes[${handshakes.indexOf(handshake)}]`;
    return message === undefined ? [] : [{ path, message }];
  });
}

/** A path whose callers sign. */
export interface SignedPath {
  path: string;
  auth: SchemeAuth;
  /** The path of `auth` in the config. */
  at: string;
  /** The methods whose requests are events of the path. Default: POST. */
  methods?: readonly string[];
}

export interface Verifiers {
  /** By path. */
  verifiers: ReadonlyMap<string, Verifier>;
  issues: Issue[];
  /** Scheme files, whose change means a new snapshot. */
  files: string[];
}

/** Stands in for a secret that is still `pending`: text, hex and base64 alike. */
const STAND_IN = "0123456789abcdef0123456789abcdef";

/** Finds out whether a scheme can work: its sender's requests verify, and each of its handshakes can be reached. */
function proveScheme(
  options: VerifierOptions,
  { path, at, methods = ["POST"] }: SignedPath,
  publicUrl = "http://127.0.0.1",
): Issue[] {
  const { scheme, secrets } = options;
  const schemeAt = `${at}.scheme`;
  const issues = checkHandshakes(scheme, schemeAt, methods);
  if (issues.length > 0) return issues;
  const usable = secrets.filter((secret) => secret !== "pending");
  const made = compileVerifier({ ...options, secrets: usable.length > 0 ? usable : [STAND_IN] });
  const problem =
    made.ok &&
    findSchemeProblem(scheme, made.verifier, `${publicUrl.replace(/\/$/, "")}/hooks/${path}`);
  return problem ? [{ path: schemeAt, message: problem }] : [];
}

/** Joins the verifiers of two schemes: the second one checks the requests that have its signature header. */
function joinVerifiers(first: Verifier, second: Verifier, header: string): Verifier {
  const isOther = ({ headers }: RequestHead): boolean => headers[header] !== undefined;
  const join = (kind: "data" | "credentials") => ({
    headers: [...first.names[kind].headers, ...second.names[kind].headers],
    query: [...first.names[kind].query, ...second.names[kind].query],
  });
  return {
    ...first,
    names: { ...first.names, data: join("data"), credentials: join("credentials") },
    coversNothing: false,
    // A header of one scheme is unsigned in a request that the other one checks.
    coveredHeaders: [],
    precheck: (head, now) => (isOther(head) ? second : first).precheck(head, now),
    verify(request, now) {
      if (!isOther(request)) return first.verify(request, now);
      const verified = second.verify(request, now) as Verified;
      if (!verified.ok) return verified;
      const secret = first.secrets.indexOf(second.secrets[verified.secret] ?? "");
      return { ...verified, secret };
    },
  };
}

/** Adds the other scheme that a scheme names, for the secrets of its kind. */
function withOther(
  verifier: Verifier,
  options: VerifierOptions,
  schemes: SchemeSources,
  issues: Issue[],
): Verifier {
  const { also, sender } = options.scheme;
  const loaded = also === undefined ? undefined : loadScheme(schemes, also, `${options.at}.secret`);
  if (!loaded) return verifier;
  if (!loaded.ok) {
    issues.push(...loaded.issues);
    return verifier;
  }
  const { scheme } = loaded;
  const secrets = options.secrets.filter((secret) =>
    scheme.variants?.some(({ secretPrefix }) => secret.startsWith(secretPrefix)),
  );
  // The window for retries is the first scheme's: a copy under other headers is not accepted for longer.
  const made = compileVerifier({ ...options, scheme: { ...scheme, sender }, secrets });
  const header = scheme.signature.header?.toLowerCase();
  // Issues of a secret are those of the first scheme; without a secret of its kind the other one takes no request.
  return made.ok && header !== undefined
    ? joinVerifiers(verifier, made.verifier, header)
    : verifier;
}

/** Creates the verifiers of all signed paths. `fetchFrom` gets the senders' certificates and keys. */
export function createVerifiers(
  paths: readonly SignedPath[],
  schemes: SchemeSources,
  publicUrl: string | undefined,
  fetchFrom: typeof fetch,
): Verifiers {
  const verifiers = new Map<string, Verifier>();
  const issues = findSchemeClashes(schemes);
  const files: string[] = [];
  for (const signed of paths) {
    const { path, auth, at } = signed;
    const loaded =
      typeof auth.scheme === "string"
        ? loadScheme(schemes, auth.scheme, `${at}.scheme`)
        : { ok: true as const, scheme: auth.scheme, file: undefined };
    if (!loaded.ok) {
      issues.push(...loaded.issues);
      continue;
    }
    if (loaded.file !== undefined) files.push(loaded.file);
    const secrets = [auth.secret ?? []].flat();
    const options: VerifierOptions = { scheme: loaded.scheme, secrets, auth, at, fetch: fetchFrom };
    const made = compileVerifier(options);
    if (!made.ok) {
      issues.push(...made.issues);
      continue;
    }
    issues.push(...proveScheme(options, signed, publicUrl));
    if (made.verifier.needsUrl && publicUrl === undefined)
      issues.push({
        path: "gateway.publicUrl",
        message: `is required: the scheme of the path "${path}" signs the public address`,
      });
    if (made.verifier.wantsVerifyToken && auth.verifyToken === undefined)
      issues.push({
        path: `${at}.verifyToken`,
        message: "is required: the sender shows it in its handshake",
      });
    verifiers.set(path, withOther(made.verifier, options, schemes, issues));
  }
  return { verifiers, issues, files };
}
