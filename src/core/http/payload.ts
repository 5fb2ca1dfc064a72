import { parseMultipart } from "@remix-run/multipart-parser";
import { plural } from "../text.ts";
import type { Failure } from "../errors.ts";
import { getRepeats, MAX_DEPTH, parseJson } from "../json.ts";

type Decoded<T> = ({ ok: true } & T) | { ok: false; failure: Failure };
type DecodedText = Decoded<{ text: string }>;

/** The character set of bytes that begin with a byte order mark. */
function getMarked(bytes: Uint8Array): string | undefined {
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return "utf-8";
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
  return undefined;
}

/** Returns whether a character set is one that can be decoded: those of https://encoding.spec.whatwg.org/#names-and-labels. */
export function isCharset(name: string): boolean {
  try {
    new TextDecoder(name);
    return true;
  } catch {
    return false;
  }
}

const unknown = (charset: string): Failure => ({
  code: "unsupported_media_type",
  message: `the charset ${/^[\w.:-]{1,40}$/.test(charset) ? `"${charset}"` : "of the body"} is not known: send UTF-8, or name another charset`,
});

/**
 * Decodes text: by its byte order mark, which is no part of it, else by the character set that is named, else as UTF-8. Bytes that
 * are no text in that character set fail: no character is replaced.
 */
function decodeCharset(bytes: Uint8Array, charset?: string): DecodedText {
  // Text that is called ASCII and is not is UTF-8 nearly always.
  const named = charset === undefined || /^(?:us-)?ascii$/i.test(charset) ? "utf-8" : charset;
  if (!isCharset(named)) return { ok: false, failure: unknown(named) };
  const actual = getMarked(bytes) ?? named;
  try {
    return { ok: true, text: new TextDecoder(actual, { fatal: true }).decode(bytes) };
  } catch {
    const remedy =
      charset === undefined
        ? "name the charset that it is written in, such as `charset=iso-8859-1` in its Content-Type"
        : "name the charset that it is written in";
    return {
      ok: false,
      failure: { code: "invalid_body", message: `the body is not valid ${actual}: ${remedy}` },
    };
  }
}

/** The format in which a body is read, whatever its content type says. */
export type BodyFormat = "json" | "text" | "form";

/** `warnings` say what of the body is not in the payload. */
export type DecodedPayload = Decoded<{ payload: unknown; warnings?: string[] }>;

const MAX_PARTS = 1000;
const MAX_PART_HEADER = 16 * 1024;

/** The media type of a content type, in lower case and without parameters; empty if there is none. */
function getMediaType(contentType: string | undefined): string {
  return (contentType ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
}

/** A parameter of a content type, without quotes; undefined if it is not there or empty. */
function getParameter(contentType: string | undefined, name: string): string | undefined {
  const [, quoted, plain] =
    new RegExp(`;\\s*${name}\\s*=\\s*(?:"([^"]*)"|([^\\s;,]*))`, "i").exec(contentType ?? "") ?? [];
  return (quoted ?? plain)?.trim() || undefined;
}

/** The character set of a content type. Some programs put it into single quotes, or leave half a pair. */
const getCharset = (contentType: string | undefined): string | undefined =>
  getParameter(contentType, "charset")?.replaceAll(/['"]/g, "") || undefined;

/** The content types that messages name. Messages never quote another content type: it is the caller's own text. */
const NAMED = new Set([
  "application/json",
  "application/octet-stream",
  "application/pdf",
  "application/x-ndjson",
  "application/x-protobuf",
  "application/x-www-form-urlencoded",
  "application/xml",
  "image/jpeg",
  "image/png",
  "multipart/form-data",
  "text/csv",
  "text/html",
  "text/plain",
  "text/xml",
]);

/** Names a content type for a message. */
export function nameContentType(contentType: string | undefined): string {
  const type = getMediaType(contentType);
  if (type === "") return "no content type";
  return NAMED.has(type) ? type : "an unknown content type";
}

/** JSON by its name: `application/json`, `application/vnd.api+json`, `text/x-json`, `application/x-amz-json-1.1`. */
const JSON_TYPE = /[/+.-]json(?:$|-\d|\+|;)|^application\/(?:csp-report|jsonrequest)$/;
/** Several JSON texts one after the other are no JSON text. */
const JSON_LINES = /ndjson|jsonl|json-(?:seq|lines)|stream\+json/;
const XML_TYPE = /[/+]xml$/;
/** Types that no person could read, even if its bytes happen to be text. */
const BINARY_TYPE =
  /^(?:image|audio|video|font|model)\/(?!svg\+xml)|[/+.-](?:pdf|zip|gzip|protobuf|grpc|msgpack|cbor)$/;

const TOO_DEEP: DecodedPayload = {
  ok: false,
  failure: {
    code: "invalid_json",
    message: `the JSON is nested deeper than ${MAX_DEPTH} levels`,
  },
};

/** Says where a text is no JSON. The parser's own message quotes the body; only the position is passed on. */
function findJsonProblem({ message }: SyntaxError): string {
  const position = /position (\d+)/.exec(message)?.[1];
  if (position !== undefined) return `at character ${position}`;
  return message.includes("end of JSON")
    ? "it ends in its middle"
    : "a value is missing, or is one that JSON does not know, such as NaN";
}

/** Places that a warning names at most. */
const MAX_NAMED = 3;

/** Warns of keys that an object has twice (RFC 8259, section 4), by their places: the keys are the sender's words. */
function warnOfRepeats(places: readonly number[]): string {
  const named = places.slice(0, MAX_NAMED).join(", ");
  const more = places.length > MAX_NAMED ? ` and ${places.length - MAX_NAMED} more` : "";
  return `an object of the body has a key twice, of which the last value counts (at character ${named}${more})`;
}

/** @param contentType why the text was read as JSON; undefined if it is read so whatever it came as */
function readJson(text: string, contentType?: string): DecodedPayload {
  if (text.trim() === "") return { ok: true, payload: {} };
  try {
    const payload = parseJson(text, MAX_DEPTH);
    // Some programs encode their JSON twice.
    if (typeof payload === "string") return readText(payload);
    const repeats = getRepeats(payload);
    return { ok: true, payload, ...(repeats.length > 0 && { warnings: [warnOfRepeats(repeats)] }) };
  } catch (error) {
    if (error instanceof RangeError) return TOO_DEEP;
    const where = findJsonProblem(error as SyntaxError);
    return {
      ok: false,
      failure: {
        code: "invalid_json",
        message:
          contentType === undefined
            ? `the body is not valid JSON (${where})`
            : `the body came as ${nameContentType(contentType)} and is not valid JSON (${where}): send JSON, or name another content type`,
      },
    };
  }
}

/** Collects fields by name. A name that comes several times has the list of its values. */
function collectFields<T>(entries: Iterable<readonly [string, T]>): Record<string, T | T[]> {
  const fields: Record<string, T | T[]> = {};
  for (const [name, value] of entries) {
    if (name === "__proto__") continue;
    const before = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (Array.isArray(before)) before.push(value);
    else fields[name] = before === undefined ? value : [before, value];
  }
  return fields;
}

/** Reads fields as a payload. If `payload` is the only one and JSON, that is the payload: several senders post such forms. */
function toFormPayload(fields: Record<string, unknown>, warnings: string[] = []): DecodedPayload {
  const only = fields["payload"];
  if (Object.keys(fields).length === 1 && typeof only === "string" && /^\s*[[{]/.test(only)) {
    const json = readJson(only);
    if (json.ok) return json;
  }
  return { ok: true, payload: fields, ...(warnings.length > 0 && { warnings }) };
}

/** A field whose bytes are still to be decoded. */
interface RawField {
  name: Buffer;
  value: Buffer;
  /** The character set that a part of a multipart body names for itself. */
  charset?: string | undefined;
}

const findField = (fields: readonly RawField[], name: string): string | undefined =>
  fields
    .find((field) => field.name.equals(Buffer.from(name)))
    ?.value.toString("latin1")
    .trim();

/** The character set that a field names; undefined if it is not there, or names none. */
function getNamedCharset(fields: readonly RawField[], name: string): string | undefined {
  const value = findField(fields, name);
  return value !== undefined && isCharset(value) ? value : undefined;
}

/** The character sets of single fields, as SendGrid's inbound mail names them: `charsets={"subject":"iso-8859-1"}`. */
function getCharsets(fields: readonly RawField[]): Record<string, unknown> {
  try {
    return Object(JSON.parse(findField(fields, "charsets") ?? "{}")) as Record<string, unknown>;
  } catch {
    return {};
  }
}

type DecodedFields = Decoded<{ fields: [string, string][] }>;

function decodeFields(fields: readonly RawField[], charset: string | undefined): DecodedFields {
  const own = getCharsets(fields);
  const decoded: [string, string][] = [];
  for (const field of fields) {
    const name = decodeCharset(field.name, charset);
    if (!name.ok) return name;
    const listed = Object.hasOwn(own, name.text) ? own[name.text] : undefined;
    const value = decodeCharset(
      field.value,
      field.charset ?? (typeof listed === "string" ? listed : charset),
    );
    if (!value.ok) return value;
    decoded.push([name.text, value.text]);
  }
  return { ok: true, fields: decoded };
}

/**
 * Decodes the fields of a form: in the character set that is stated or that the field `_charset_` names, else as UTF-8. If
 * they are no UTF-8, the field `charset` says what they are, as in PayPal's notifications.
 */
function readFields(fields: readonly RawField[], stated: string | undefined): DecodedFields {
  const charset = stated ?? getNamedCharset(fields, "_charset_");
  const decoded = decodeFields(fields, charset);
  if (decoded.ok || charset !== undefined) return decoded;
  const other = getNamedCharset(fields, "charset");
  return other === undefined ? decoded : decodeFields(fields, other);
}

/** Returns the bytes of a text in which `sign` and two hex digits stand for a byte. */
const decodeHex = (text: string, sign: "%" | "="): Buffer =>
  Buffer.from(
    text.replace(new RegExp(`${sign}([\\da-f]{2})`, "gi"), (_all, code: string) =>
      String.fromCharCode(parseInt(code, 16)),
    ),
    "latin1",
  );

/** Undoes percent-encoding, to bytes. */
const decodePercent = (text: string): Buffer => decodeHex(text.replaceAll("+", " "), "%");

/**
 * Reads JSON that came as a form: curl's -d names the content type of forms whatever it sends. Undefined if it is none; but an
 * object that is not valid JSON is no form either, since forms encode the brace.
 */
function readJsonForm(
  bytes: Buffer,
  contentType: string | undefined,
  charset: string | undefined,
): DecodedPayload | undefined {
  const start = /^[\ufeff\s]*([[{])/.exec(bytes.toString("utf8", 0, 64))?.[1];
  if (start === undefined) return undefined;
  const text = decodeCharset(bytes, charset);
  const json = text.ok ? readJson(text.text, contentType) : text;
  return json.ok || start === "{" ? json : undefined;
}

/** Reads the fields of a form, https://url.spec.whatwg.org/#urlencoded-parsing. `text` has a character for each byte. */
function parseForm(text: string, charset?: string): DecodedFields {
  if (!/[\x80-\xff]|%[89a-f]/i.test(text))
    return { ok: true, fields: [...new URLSearchParams(text)] };
  const pairs = text.split("&").filter((pair) => pair !== "");
  const fields = pairs.map((pair): RawField => {
    const [name = ""] = pair.split("=", 1);
    return { name: decodePercent(name), value: decodePercent(pair.slice(name.length + 1)) };
  });
  return readFields(fields, charset);
}

function readForm(
  bytes: Buffer,
  contentType: string | undefined,
  charset: string | undefined,
): DecodedPayload {
  const json = readJsonForm(bytes, contentType, charset);
  if (json) return json;
  const read = parseForm(bytes.toString("latin1").replace(/^\xef\xbb\xbf/, ""), charset);
  return read.ok ? toFormPayload(collectFields(read.fields)) : read;
}

/** A file of a multipart body, as a payload has it. */
interface FilePart {
  filename: string;
  /** Its media type, as the sender names it. */
  type: string;
  /** Its length. Its content is a part of the recorded body. */
  bytes: number;
}

const malformed = (problem: string): DecodedPayload => ({
  ok: false,
  failure: { code: "invalid_body", message: `the multipart body cannot be read: ${problem}` },
});

/**
 * Undoes the transfer encoding of a part (RFC 2045, section 6), which programs use that write multipart bodies as mails are
 * written.
 */
function decodeTransfer(bytes: Buffer, encoding = ""): Buffer {
  switch (encoding.trim().toLowerCase()) {
    case "base64":
      return Buffer.from(bytes.toString("latin1"), "base64");
    case "quoted-printable":
      return decodeHex(bytes.toString("latin1").replace(/=[ \t]*\r?\n/g, ""), "=");
    default:
      return bytes;
  }
}

interface Part extends RawField {
  kind: "text" | "json" | FilePart;
}

/** Splits a multipart body. @throws MultipartParseError if it is malformed */
function* readParts(bytes: Buffer, boundary: string): Generator<Part> {
  const parts = parseMultipart(bytes, {
    boundary,
    maxFileSize: bytes.length,
    maxTotalSize: bytes.length,
    maxParts: MAX_PARTS,
    maxHeaderSize: MAX_PART_HEADER,
  });
  for (const { name = "", filename, mediaType, headers, bytes: content } of parts) {
    const type = mediaType?.toLowerCase() ?? "";
    const value = decodeTransfer(
      Buffer.from(content.buffer, content.byteOffset, content.length),
      headers["content-transfer-encoding"],
    );
    const charset = getCharset(headers["content-type"]);
    if (filename === undefined)
      yield {
        name: Buffer.from(name),
        value,
        charset,
        kind: JSON_TYPE.test(type) ? "json" : "text",
      };
    else {
      const file = { filename, type: type || "application/octet-stream", bytes: value.length };
      yield { name: Buffer.from(name), value: Buffer.alloc(0), kind: file };
    }
  }
}

/** Reads the parts of a multipart body: fields as those of a form, JSON parts as JSON, of a file what it is. */
function readMultipart(bytes: Buffer, contentType: string): DecodedPayload {
  const boundary = getParameter(contentType, "boundary");
  // Text before the first boundary is no part (RFC 2046, section 5.1.1).
  const start = boundary === undefined ? -1 : bytes.indexOf(`--${boundary}`);
  if (boundary === undefined)
    return malformed(
      "the content type names no boundary; let the program that writes the body set the header",
    );
  if (start < 0) return malformed("the boundary of the content type is not in it");
  let parts: Part[];
  try {
    parts = [...readParts(bytes.subarray(start), boundary)];
  } catch {
    return malformed(
      "end it with the boundary and `--`, end lines of boundaries and headers with CR LF, and name each part",
    );
  }
  const read = readFields(parts, getCharset(contentType));
  if (!read.ok) return read;
  const warnings: string[] = [];
  const entries: [string, unknown][] = [];
  for (const [index, [name, text]] of read.fields.entries()) {
    const { kind } = parts[index] as Part;
    const json = kind === "json" ? readJson(text, "application/json") : undefined;
    if (json && !json.ok) return json;
    entries.push([name, json ? json.payload : kind === "text" ? text : kind]);
    warnings.push(...(json?.warnings ?? []));
    if (typeof kind === "object")
      warnings.push(
        `a file of ${plural(kind.bytes, "byte")} came with the body: agents get its name and type, and its content is not read`,
      );
  }
  return toFormPayload(collectFields(entries), warnings);
}

/** Reads text. A JSON object or list is read as JSON, since programs name many types for it; lines of JSON are text, even a single one. */
function readText(text: string, type = ""): DecodedPayload {
  const json = /^\s*[[{]/.test(text) && !JSON_LINES.test(type) ? readJson(text) : undefined;
  return json?.ok ? json : { ok: true, payload: text };
}

/** The character set that bytes show or name by themselves: UTF-16 by its zeros, else the declaration of XML or HTML. */
function findCharset(bytes: Buffer, type: string): string | undefined {
  // JSON and markup begin with a character of ASCII, which is one zero byte and another in UTF-16 (RFC 4627, section 3).
  if (bytes.length % 2 === 0 && (bytes[0] === 0) !== (bytes[1] === 0))
    return bytes[0] === 0 ? "utf-16be" : "utf-16le";
  const head = bytes.toString("latin1", 0, 1024);
  if (XML_TYPE.test(type) || head.startsWith("<?xml"))
    return /^\s*<\?xml[^>]*\sencoding\s*=\s*["']([\w.:-]+)/.exec(head)?.[1];
  return type === "text/html"
    ? /<meta[^>]*\bcharset\s*=\s*["']?([\w.:-]+)/i.exec(head)?.[1]
    : undefined;
}

/** Returns whether text could be read by a person: no character that only programs write. */
const isReadable = (text: string): boolean => !/(?![\t\n\v\f\r])\p{Cc}/u.test(text);

const unread = (contentType: string | undefined): DecodedPayload => {
  const name = nameContentType(contentType);
  return {
    ok: false,
    failure: {
      code: "unsupported_media_type",
      message: `a body of ${name.includes("/") ? `the content type ${name}` : name} is not read: send JSON as application/json, a form, multipart fields or text`,
    },
  };
};

type Kind = BodyFormat | "multipart" | "readable" | "binary";

/** Returns how a body of a media type is read. `readable`: as text, if its bytes are. */
function getKind(type: string): Kind {
  if (type === "multipart/form-data") return "multipart";
  if (type === "application/x-www-form-urlencoded") return "form";
  if (type === "" || (JSON_TYPE.test(type) && !JSON_LINES.test(type))) return "json";
  if (/^(?:text|message)\//.test(type) || XML_TYPE.test(type)) return "text";
  return BINARY_TYPE.test(type) ? "binary" : "readable";
}

/**
 * Decodes a body to its payload: by its content type, or as `format` says whatever that is. JSON is read as `parseJson` does,
 * forms and multipart bodies as objects, all else that is readable as text. An empty body is `{}`.
 */
export function decodePayload(
  bytes: Buffer,
  { contentType, format }: { contentType: string | undefined; format?: BodyFormat | undefined },
): DecodedPayload {
  if (bytes.length === 0) return { ok: true, payload: {} };
  const type = getMediaType(contentType);
  const charset = getCharset(contentType);
  const named = getKind(type);
  const kind = named === "multipart" && format === "form" ? named : (format ?? named);
  if (kind === "multipart") return readMultipart(bytes, contentType ?? "");
  if (kind === "form") return readForm(bytes, contentType, charset);
  if (kind === "binary") return unread(contentType);
  // The order of its bytes is not in the name "utf-16".
  const isOpen = charset === undefined || /^utf-?16$/i.test(charset);
  const decoded = decodeCharset(bytes, (isOpen ? findCharset(bytes, type) : undefined) ?? charset);
  if (!decoded.ok)
    return kind === "readable" && charset === undefined ? unread(contentType) : decoded;
  const { text } = decoded;
  if (kind === "json") return readJson(text, format === undefined ? type : undefined);
  if (format === "text") return { ok: true, payload: text };
  return kind === "readable" && !isReadable(text) ? unread(contentType) : readText(text, type);
}

/** The parameters of an address by name; one that comes several times has the list of its values. */
export type QueryValues = Record<string, string | string[]>;

function getQuery(url: string): string {
  const start = url.indexOf("?");
  return start < 0 ? "" : url.slice(start + 1);
}

/** Reads the query of an address, in the character set that a parameter of it names. What is no text in it is replaced. */
export function parseQuery(url: string): QueryValues {
  const query = getQuery(url);
  const read = parseForm(query);
  return collectFields(read.ok ? read.fields : new URLSearchParams(query));
}

/** Returns why the query of an address cannot be read to its last character; undefined if it can. */
export const findQueryProblem = (url: string): Failure | undefined =>
  parseForm(getQuery(url)).ok
    ? undefined
    : {
        code: "invalid_body",
        message:
          "the query of the address is no text in UTF-8: encode it in UTF-8, or name its charset in a parameter `charset`",
      };

/** Returns the first value of each parameter, for what knows one only: tokens, signatures, handshakes. */
export function getFirstValues(query: QueryValues): Record<string, string> {
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => [
      name,
      Array.isArray(value) ? (value[0] ?? "") : value,
    ]),
  );
}
