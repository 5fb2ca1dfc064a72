import type { SignedRequest } from "./types.ts";
import { isForm } from "./values.ts";

/** The parts of a request that the placeholders of a signed text stand for. */
export interface SignedParts {
  request: SignedRequest;
  timestamp: string;
  id: string;
}

type Part = Buffer | ((parts: SignedParts) => string | Buffer);

/** Characters that senders write as they are when they sign an address, though the request line has them encoded. */
const DECODED = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi;

/** A form's fields by name, each name followed by its value, without anything between (the values of one name sorted too). */
function sortedForm(request: SignedRequest): string {
  if (!isForm(request)) return "";
  const byName = new Map<string, Set<string>>();
  for (const [name, value] of new URLSearchParams(request.raw.toString("utf8")))
    byName.set(name, (byName.get(name) ?? new Set()).add(value));
  return [...byName.keys()]
    .toSorted((a, b) => (a < b ? -1 : 1))
    .map((name) =>
      [...(byName.get(name) ?? [])]
        .toSorted()
        .map((value) => name + value)
        .join(""),
    )
    .join("");
}

const PLACEHOLDERS: Record<string, (parts: SignedParts) => string | Buffer> = {
  raw: ({ request }) => request.raw,
  timestamp: ({ timestamp }) => timestamp,
  id: ({ id }) => id,
  method: ({ request }) => request.method,
  url: ({ request }) => request.url,
  decodedUrl: ({ request }) => request.url.replace(DECODED, (code) => decodeURIComponent(code)),
  path: ({ request }) => new URL(request.url).pathname,
  sortedForm: ({ request }) => sortedForm(request),
};

export interface SignedText {
  /** The text in pieces, in order: the body is never copied. */
  pieces(parts: SignedParts): (string | Buffer)[];
  names: ReadonlySet<string>;
  headers: readonly string[];
}

/** Compiles `v0:{timestamp}:{raw}`. `wrong` names a placeholder that there is not. */
export function compileSigned(
  template: string,
): { ok: true; text: SignedText } | { ok: false; wrong: string } {
  const parts: Part[] = [];
  const names = new Set<string>();
  const headers: string[] = [];
  for (const piece of template.split(/(\{[^}]*\})/)) {
    const name = /^\{(.*)\}$/.exec(piece)?.[1];
    if (name === undefined) {
      if (piece !== "") parts.push(Buffer.from(piece));
      continue;
    }
    const header = /^header:(.+)$/.exec(name)?.[1]?.toLowerCase();
    if (header !== undefined) {
      headers.push(header);
      parts.push(({ request }) => request.headers[header] ?? "");
    } else if (Object.hasOwn(PLACEHOLDERS, name)) {
      names.add(name);
      parts.push(PLACEHOLDERS[name] as Part);
    } else return { ok: false, wrong: name };
  }
  return {
    ok: true,
    text: {
      names,
      headers,
      pieces: (given) => parts.map((part) => (typeof part === "function" ? part(given) : part)),
    },
  };
}
