import { createHmac, hash, randomBytes, randomUUID } from "node:crypto";
import type { DuplicateRule, Scheme, SignatureSource } from "../../config/schema/signature.ts";
import { parseJson, writeJson } from "../../core/json.ts";
import { hmacKey, signToken, toSecretForm } from "./algorithms.ts";
import { compileSigned } from "./signed.ts";
import { createBody, getValue, isForm } from "./values.ts";

/** A request that is to be signed. Header names are lower-case; `url` is the address that the sender signs, with its query. */
export interface UnsignedRequest {
  url: string;
  headers: Record<string, string>;
  raw: Buffer;
}

export type SignResult = { ok: true; request: UnsignedRequest } | { ok: false; message: string };

/** Sets every member at a path such as `data.id` or `value[].state`. Returns false if an object or a list on the way is missing. */
function setMember(
  target: unknown,
  [segment = "", ...rest]: readonly string[],
  value: string,
): boolean {
  if (typeof target !== "object" || target === null || Array.isArray(target)) return false;
  const members = target as Record<string, unknown>;
  const name = segment.replace(/\[\]$/, "");
  if (name !== segment) {
    const list = members[name];
    return Array.isArray(list) && list.every((item) => setMember(item, rest, value));
  }
  if (rest.length > 0) return setMember(members[name], rest, value);
  const isNumber = typeof members[name] !== "string" && /^\d+$/.test(value);
  members[name] = isNumber ? Number(value) : value;
  return true;
}

/** A request under construction. Values are written to the places that a scheme reads. */
class RequestDraft {
  readonly headers: Record<string, string>;
  readonly url: URL;
  raw: Buffer;

  constructor(request: UnsignedRequest) {
    this.headers = { ...request.headers };
    this.url = new URL(request.url);
    this.raw = request.raw;
  }

  /** Writes a value to the place that the source reads. List entries go into one header. False if the body has no place for it. */
  put({ header, query, body, prefix = "", split }: SignatureSource, value: string): boolean {
    if (body !== undefined) return this.#putInBody(body, value);
    if (query !== undefined) this.url.searchParams.set(query, prefix + value);
    const name = header?.toLowerCase();
    if (name === undefined) return true;
    const before = split === undefined ? undefined : this.headers[name];
    this.headers[name] = before === undefined ? prefix + value : before + split + prefix + value;
    return true;
  }

  /** The first value that a source reads. */
  get(source: SignatureSource): string | undefined {
    const { headers, raw } = this;
    const query = Object.fromEntries(this.url.searchParams);
    return getValue(source, { method: "POST", headers, query, raw }, createBody({ raw, headers }));
  }

  #putInBody(path: string, value: string): boolean {
    if (isForm(this)) {
      const form = new URLSearchParams(this.raw.toString("utf8"));
      form.set(path, value);
      this.raw = Buffer.from(form.toString());
      return true;
    }
    try {
      const body = parseJson(this.raw.toString("utf8"));
      if (!setMember(body, path.split("."), value)) return false;
      this.raw = Buffer.from(writeJson(body));
      return true;
    } catch {
      return false;
    }
  }
}

/** Writes a time as the sender writes it. */
function renderTime(now: number, unit: NonNullable<Scheme["timestamp"]>["unit"]): string {
  if (unit === "iso8601") return new Date(now).toISOString();
  return String(unit === "s" ? Math.floor(now / 1000) : now);
}

/** Returns the value that the request has at a header of its own, else puts a new one there. */
function getGivenValue(
  draft: RequestDraft,
  source: SignatureSource,
  fresh: string,
): string | undefined {
  const isOwn = source.header !== undefined && source.split === undefined;
  const present = isOwn ? draft.get(source) : undefined;
  if (present !== undefined) return present;
  return draft.put(source, fresh) ? fresh : undefined;
}

/** The lifetime of a token, in seconds. */
const TOKEN_SECONDS = 300;

const noPlace = (what: string): SignResult => ({
  ok: false,
  message: `the body has no place for the ${what} that this scheme reads there`,
});

const cannot = (message: string): SignResult => ({ ok: false, message });

/** Writes the time, the id and the hash that a scheme signs, then the signature of its signed text. */
function signText(
  scheme: Scheme,
  { algorithm, signaturePrefix = "" }: ReturnType<typeof toSecretForm>,
  key: Buffer,
  draft: RequestDraft,
  now: number,
): SignResult {
  const signed = compileSigned(scheme.signed);
  if (!signed.ok) return cannot(`the scheme's \`signed\` has no placeholder {${signed.wrong}}`);
  const { timestamp: time } = scheme;
  const timestamp = time ? getGivenValue(draft, time.at, renderTime(now, time.unit)) : "";
  if (timestamp === undefined) return noPlace("time");
  const [idAt] = signed.text.names.has("id") ? (scheme.id ?? []) : [];
  const id = idAt ? (draft.get(idAt) ?? getGivenValue(draft, idAt, randomUUID())) : "";
  if (id === undefined) return noPlace("id");
  if (scheme.bodyHash && !isForm(draft))
    draft.put(scheme.bodyHash, hash("sha256", draft.raw, "hex"));
  const { url, headers, raw } = finish(draft);
  const hmac = createHmac(algorithm.slice("hmac-".length), key);
  const parts = { request: { method: "POST", url, headers, query: {}, raw }, timestamp, id };
  for (const piece of signed.text.pieces(parts)) hmac.update(piece);
  return draft.put(scheme.signature, signaturePrefix + hmac.digest(scheme.encoding))
    ? { ok: true, request: finish(draft) }
    : noPlace("signature");
}

/**
 * Signs a POST request as the scheme's sender would. An id or a time that the request has in a header of its own stays.
 * A scheme that reads the time or the secret in the body gets it there: the body, JSON or a form, is serialized again.
 * @param now milliseconds since the epoch.
 */
export function signRequest(
  scheme: Scheme,
  secret: string,
  request: UnsignedRequest,
  now: number,
): SignResult {
  const form = toSecretForm(scheme, secret);
  const { algorithm, key, text } = form;
  const draft = new RequestDraft(request);
  if (algorithm === "equals")
    return draft.put(scheme.signature, secret)
      ? { ok: true, request: finish(draft) }
      : noPlace("secret");
  if (algorithm === "oidc")
    return cannot(
      "its sender shows a token of its identity provider, which only that sender can get",
    );
  if (algorithm !== "jwt-hs256" && !algorithm.startsWith("hmac-"))
    return cannot("its sender signs with a private key, and the config holds only the public one");
  const bytes = hmacKey(text, key);
  if (!bytes) return cannot(`its secret is not written in ${key}`);
  if (algorithm !== "jwt-hs256") return signText(scheme, form, bytes, draft, now);
  const token = signToken({ exp: Math.floor(now / 1000) + TOKEN_SECONDS }, bytes);
  return draft.put(scheme.signature, token)
    ? { ok: true, request: finish(draft) }
    : noPlace("token");
}

function finish({ url, headers, raw }: RequestDraft): UnsignedRequest {
  return { url: url.href, headers, raw };
}

/** White space that JSON allows after a value, in random order: the same content in other bytes. */
function randomSpace(): string {
  return Array.from(randomBytes(32), (byte) => " \t\n\r"[byte & 3]).join("");
}

/** Changes a request that was posted before so that it counts as a new event: by the id, or by other bytes, as its path tells repeats. */
export function asNewEvent(
  { id: places = [] }: Scheme,
  rule: DuplicateRule,
  request: UnsignedRequest,
): UnsignedRequest {
  const draft = new RequestDraft(request);
  if (rule === "none") return request;
  if (rule === "id") {
    // The place that the request has, else the first that can hold an id.
    const present = places.find((place) => draft.get(place) !== undefined);
    (present ? [present] : places).some((place) => draft.put(place, randomUUID()));
    return finish(draft);
  }
  const added = isForm(draft) ? `&sample=${randomUUID()}` : randomSpace();
  return { ...finish(draft), raw: Buffer.concat([draft.raw, Buffer.from(added)]) };
}
