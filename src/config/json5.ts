import { readFileSync } from "node:fs";
import JSON5 from "json5";
import type { Issue } from "../core/errors.ts";
import { renderPath } from "./issues.ts";

/** Comments, strings, punctuation, and whatever else stands between spaces. */
const TOKEN = /\/\/.*|\/\*[^]*?\*\/|"[^"\\]*(?:\\[^][^"\\]*)*"|'[^'\\]*(?:\\[^][^'\\]*)*'|[{}[\]:,]|[^\s{}[\]:,"'/]+/g;

/** An object or a list that is open at a token: the key or index that the path goes through, and the places of its keys. */
interface Open {
  at: string | number;
  keys?: Map<string, number>;
}

function readKey(token: string): string {
  if (token.includes("\\")) return Object.keys(JSON5.parse<object>(`{${token}: 0}`))[0] ?? token;
  return token.replace(/^["']|["']$/g, "");
}

function renderPlace(text: string, index: number): string {
  const lines = text.slice(0, index).split(/\r\n|[\n\r\u2028\u2029]/);
  return `line ${lines.length}, column ${(lines.at(-1) ?? "").length + 1}`;
}

/** Finds keys that one object of a valid JSON5 text has more than once; the parser keeps the last one. */
function findDuplicateKeys(text: string): Issue[] {
  const issues: Issue[] = [];
  const opened: Open[] = [];
  let before = { token: "", index: 0 };
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (token.startsWith("/")) continue;
    const inner = opened.at(-1);
    if (token === "{") opened.push({ at: "", keys: new Map() });
    else if (token === "[") opened.push({ at: 0 });
    else if (token === "}" || token === "]") opened.pop();
    else if (token === "," && typeof inner?.at === "number") inner.at++;
    else if (token === ":" && inner?.keys) {
      inner.at = readKey(before.token);
      const first = inner.keys.get(inner.at);
      if (first === undefined) inner.keys.set(inner.at, before.index);
      else {
        const message = `is there twice: at ${renderPlace(text, first)} and at ${renderPlace(text, before.index)}; keep one`;
        issues.push({ path: renderPath(opened.map(({ at }) => at)), message });
      }
    }
    before = { token, index };
  }
  return issues;
}

export type Parsed =
  | { ok: true; value: unknown; /** Keys that are there twice. */ duplicates: Issue[] }
  /** `message` says what the file is or cannot be. */
  | { ok: false; message: string };

function parseJson5(text: string): Parsed {
  try {
    return { ok: true, value: JSON5.parse<unknown>(text), duplicates: findDuplicateKeys(text) };
  } catch (error) {
    const { lineNumber, columnNumber } = error as { lineNumber?: number; columnNumber?: number };
    const place = lineNumber === undefined ? "" : ` at line ${lineNumber}, column ${columnNumber}`;
    return { ok: false, message: `is not valid JSON5${place}` };
  }
}

/** Reads a JSON5 file and finds keys that are there twice. A syntax error is told by line and column, never by its text. */
export function readJson5(file: string): Parsed {
  try {
    return parseJson5(readFileSync(file, "utf8"));
  } catch (error) {
    return { ok: false, message: `${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? "error"})` };
  }
}
