import type { SignatureSource } from "../../config/schema/signature.ts";
import { getSpelling } from "../../core/json.ts";
import { decodePayload, type DecodedPayload } from "../../core/http/payload.ts";
import type { SignedRequest } from "./types.ts";

/** The maximum length of a header that is read, in characters. */
const MAX_VALUE = 8192;

export const NO_BODY = Buffer.alloc(0);

/** Returns whether a request says that its body is a form. */
export const isForm = ({ headers }: Pick<SignedRequest, "headers">): boolean =>
  /^application\/x-www-form-urlencoded/i.test(headers["content-type"] ?? "");

/** Returns the payload of a request's body, decoded at first use. Undefined if it has no fields. */
export type Body = () => unknown;

export function createBody({
  raw,
  content = raw,
  headers,
}: Pick<SignedRequest, "raw" | "content" | "headers">): Body {
  const contentType = headers["content-type"];
  let decoded: DecodedPayload | undefined;
  const decode = (): DecodedPayload => {
    // Some senders name another type than JSON, and no field of a form begins with a brace.
    const json = decodePayload(content, { contentType, format: "json" });
    return json.ok && typeof json.payload === "object"
      ? json
      : decodePayload(content, { contentType });
  };
  return () => {
    decoded ??= decode();
    return decoded.ok ? decoded.payload : undefined;
  };
}

/** The values of a member, numbers as they were written. */
function members(values: readonly unknown[], name: string): unknown[] {
  return values.flatMap((value) =>
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.hasOwn(value, name)
      ? [getSpelling(value, name) ?? (value as Record<string, unknown>)[name]]
      : [],
  );
}

/** The values at a path such as `event.id` or `value[].clientState`; one entry for each, undefined for those that miss it. */
function atPath(value: unknown, path: string): unknown[] {
  let found: unknown[] = [value];
  for (const segment of path.split(".")) {
    const each = segment.endsWith("[]");
    const name = each ? segment.slice(0, -2) : segment;
    const next = name === "" ? found : members(found, name);
    if (next.length < found.length) return [...next, undefined];
    found = each
      ? next.flatMap((list) => (Array.isArray(list) ? (list as unknown[]) : [undefined]))
      : next;
  }
  return found;
}

const toText = (value: unknown): string | undefined =>
  typeof value === "string"
    ? value
    : typeof value === "number" || typeof value === "boolean"
      ? String(value)
      : undefined;

/** All values of a source. An entry is undefined if the body has a value of another type there. */
export function getValues(
  source: SignatureSource,
  request: Omit<SignedRequest, "url">,
  body: Body,
): (string | undefined)[] {
  const { header, query, split } = source;
  if (source.body !== undefined) return atPath(body(), source.body).map(toText);
  const text =
    header !== undefined ? request.headers[header.toLowerCase()] : request.query[query ?? ""];
  if (text === undefined || text.length > MAX_VALUE) return [];
  const entries = split === undefined ? [text] : text.split(split).map((entry) => entry.trim());
  const prefix = source.prefix?.toLowerCase();
  if (prefix === undefined) return entries;
  // Space behind a prefix belongs to neither: senders write `sha256= 4f…` and `Bearer\t…`.
  const bare = prefix.trimEnd();
  return entries
    .filter((entry) => entry.replace(/\s/g, " ").toLowerCase().startsWith(prefix))
    .map((entry) => entry.slice(bare.length).trim());
}

/** The first value of a source. */
export function getValue(
  source: SignatureSource,
  request: Omit<SignedRequest, "url">,
  body: Body,
): string | undefined {
  return getValues(source, request, body)[0];
}

/** The first value of several sources, in their order. */
export function getFirst(
  sources: readonly SignatureSource[],
  request: Omit<SignedRequest, "url">,
  body: Body,
): string | undefined {
  for (const source of sources) {
    const value = getValue(source, request, body);
    if (value !== undefined) return value;
  }
  return undefined;
}
