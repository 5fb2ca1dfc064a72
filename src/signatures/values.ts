import type { Source } from "../config/schema/signature.ts";
import type { SignedRequest } from "./types.ts";

/** No header that is longer is looked at. */
const MAX_VALUE = 8192;

/** The request's body as JSON, read when first asked for; undefined where it is none. */
export interface Body {
  json(): unknown;
}

export function bodyOf(raw: Buffer): Body {
  let read = false;
  let value: unknown;
  return {
    json() {
      if (!read) {
        read = true;
        try {
          value = JSON.parse(raw.toString("utf8"));
        } catch {
          value = undefined;
        }
      }
      return value;
    },
  };
}

function members(values: readonly unknown[], name: string): unknown[] {
  return values.flatMap((value) =>
    typeof value === "object" && value !== null && !Array.isArray(value) && Object.hasOwn(value, name)
      ? [(value as Record<string, unknown>)[name]]
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
    found = each ? next.flatMap((list) => (Array.isArray(list) ? (list as unknown[]) : [undefined])) : next;
  }
  return found;
}

const textOf = (value: unknown): string | undefined =>
  typeof value === "string" ? value : typeof value === "number" || typeof value === "boolean" ? String(value) : undefined;

/** All values of a source. An entry is undefined where the body has something else there. */
export function valuesOf(source: Source, request: Omit<SignedRequest, "url">, body: Body): (string | undefined)[] {
  const { header, query, split, prefix } = source;
  if (source.body !== undefined) return atPath(body.json(), source.body).map(textOf);
  const text = header !== undefined ? request.headers[header.toLowerCase()] : request.query[query ?? ""];
  if (text === undefined || text.length > MAX_VALUE) return [];
  const entries = split === undefined ? [text] : text.split(split).map((entry) => entry.trim());
  if (prefix === undefined) return entries;
  return entries.filter((entry) => entry.toLowerCase().startsWith(prefix.toLowerCase())).map((entry) => entry.slice(prefix.length));
}

/** The first value of a source. */
export function valueOf(source: Source, request: Omit<SignedRequest, "url">, body: Body): string | undefined {
  return valuesOf(source, request, body)[0];
}
