import { readFileSync } from "node:fs";
import JSON5 from "json5";
import type { Issue } from "../core/errors.ts";
import { parentPath, renderPath } from "./issues.ts";

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

/** A key of an object or an entry of a list, with its position in the text. */
interface Member {
  path: (string | number)[];
  index: number;
  /** The position of the earlier key of the same name in the same object. */
  first?: number;
}

/** Reads the keys and entries of a valid JSON5 text, in the order in which they stand there. */
function* readMembers(text: string): Generator<Member> {
  const opened: Open[] = [];
  const here = (): Member["path"] => opened.map(({ at }) => at);
  let before = { token: "", index: 0 };
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (token.startsWith("/")) continue;
    const inner = opened.at(-1);
    if (inner && !inner.keys && token !== "]" && (before.token === "[" || before.token === ",")) yield { path: here(), index };
    if (token === "{") opened.push({ at: "", keys: new Map() });
    else if (token === "[") opened.push({ at: 0 });
    else if (token === "}" || token === "]") opened.pop();
    else if (token === "," && typeof inner?.at === "number") inner.at++;
    else if (token === ":" && inner?.keys) {
      inner.at = readKey(before.token);
      const first = inner.keys.get(inner.at);
      if (first === undefined) inner.keys.set(inner.at, before.index);
      yield { path: here(), index: before.index, ...(first === undefined ? {} : { first }) };
    }
    before = { token, index };
  }
}

/** A place in a file. Both count from 1. */
export interface TextPosition {
  line: number;
  column: number;
}

function placeAt(text: string, index: number): TextPosition {
  const lines = text.slice(0, index).split(/\r\n|[\n\r\u2028\u2029]/);
  return { line: lines.length, column: (lines.at(-1) ?? "").length + 1 };
}

/** Finds keys that one object of a valid JSON5 text has more than once; the parser keeps the last one. */
function findDuplicateKeys(text: string): Issue[] {
  const issues: Issue[] = [];
  const render = ({ line, column }: TextPosition): string => `line ${line}, column ${column}`;
  for (const { path, index, first } of readMembers(text)) {
    if (first === undefined) continue;
    const places = `at ${render(placeAt(text, first))} and at ${render(placeAt(text, index))}`;
    issues.push({ path: renderPath(path), message: `is there twice: ${places}; keep one` });
  }
  return issues;
}

/** The fields of a JSON5 file, by their paths. */
export interface Fields {
  has(path: string): boolean;
  /** Returns the position of a field or of the nearest field around it. Undefined if the file has none of them. */
  place(path: string): TextPosition | undefined;
}

/** Reads the positions of the fields of a JSON5 file. A file that cannot be read has none. */
export function readFields(file: string): Fields {
  const parsed = readJson5(file);
  const text = parsed.ok ? readFileSync(file, "utf8") : "";
  const found = new Map<string, number>();
  for (const { path, index } of readMembers(text)) found.set(renderPath(path), index);
  const place = (path: string): TextPosition | undefined => {
    const index = found.get(path);
    if (index !== undefined) return placeAt(text, index);
    const around = parentPath(path);
    return around === "" ? undefined : place(around);
  };
  return { has: (path) => found.has(path), place };
}

export type ParsedJson5 =
  | { ok: true; value: unknown; /** Keys that are there twice. */ duplicates: Issue[] }
  /** `message` says what the file is or cannot be; for a syntax error with its place. */
  | ({ ok: false; message: string } & Partial<TextPosition>);

function parseJson5(text: string): ParsedJson5 {
  try {
    return { ok: true, value: JSON5.parse<unknown>(text), duplicates: findDuplicateKeys(text) };
  } catch (error) {
    const { lineNumber: line, columnNumber: column } = error as { lineNumber?: number; columnNumber?: number };
    if (line === undefined || column === undefined) return { ok: false, message: "is not valid JSON5" };
    return { ok: false, message: `is not valid JSON5 at line ${line}, column ${column}`, line, column };
  }
}

/** Reads a JSON5 file and finds keys that are there twice. A syntax error is reported with line and column, never with its text. */
export function readJson5(file: string): ParsedJson5 {
  try {
    return parseJson5(readFileSync(file, "utf8"));
  } catch (error) {
    return { ok: false, message: `${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? "error"})` };
  }
}
