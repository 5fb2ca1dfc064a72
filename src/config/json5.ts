import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import JSON5 from "json5";
import type { Issue } from "../core/errors.ts";
import { describeFileError, fileStamp, readText, type FileTexts } from "../core/files.ts";
import { joinPath, parentPath } from "./issues.ts";
import { isLongNumber, isTooDeep, MAX_FILE_DEPTH } from "../core/json.ts";
import { getMember, readTree, type TextNode } from "./json5-tree.ts";

/** A key of an object or an entry of a list, with its position in the text. */
interface Member {
  path: string;
  index: number;
  /** The position of the earlier key of the same name in the same object. */
  first: number | undefined;
}

/** Reads the keys and entries of a valid JSON5 text, in the order in which they stand there. */
function* readMembers(node: TextNode | undefined, around = ""): Generator<Member> {
  const keys = new Map<string, number>();
  for (const [at, { key, start: index, value }] of (node?.items ?? []).entries()) {
    const path = joinPath(around, key ?? at);
    const first = key === undefined ? undefined : keys.get(key);
    if (key !== undefined && first === undefined) keys.set(key, index);
    yield { path, index, first };
    yield* readMembers(value, path);
  }
}

/** A place in a file. Both count from 1. */
export interface TextPosition {
  line: number;
  column: number;
}

const LINE_END = /\r\n|[\n\r\u2028\u2029]/g;

/** Returns what finds the line and the column of an index of a text. */
function createPlaces(text: string): (index: number) => TextPosition {
  let starts: number[] | undefined;
  return (index) => {
    starts ??= [0, ...Array.from(text.matchAll(LINE_END), (end) => end.index + end[0].length)];
    const line = starts.findLastIndex((start) => start <= index);
    return { line: line + 1, column: index - (starts[line] as number) + 1 };
  };
}

/** Finds keys that one object of a valid JSON5 text has more than once; the parser keeps the last one. */
function findDuplicateKeys(text: string): Issue[] {
  const issues: Issue[] = [];
  const placeAt = createPlaces(text);
  const render = ({ line, column }: TextPosition): string => `line ${line}, column ${column}`;
  for (const { path, index, first } of readMembers(readTree(text))) {
    if (first === undefined) continue;
    const places = `at ${render(placeAt(first))} and at ${render(placeAt(index))}`;
    issues.push({ path, message: `is there twice: ${places}; keep one` });
  }
  return issues;
}

/** Finds keys `__proto__`, which schemas leave out of objects with free names: a mapping would match without the condition. */
export function findPrototypeKeys(value: unknown, path = ""): Issue[] {
  if (typeof value !== "object" || value === null) return [];
  const isList = Array.isArray(value);
  return Object.entries(value).flatMap(([key, member]) => {
    const at = joinPath(path, isList ? Number(key) : key);
    return key === "__proto__"
      ? [{ path: at, message: "is a name that no field can have: take it out" }]
      : findPrototypeKeys(member, at);
  });
}

/** The fields of a JSON5 file, by their paths. */
export interface Fields {
  has(path: string): boolean;
  /** Returns the position of a field or of the nearest field around it. Undefined if the file has none of them. */
  place(path: string): TextPosition | undefined;
}

/** Fields of files that were read, by path. `stamp` changes with each write of the file. */
const kept = new Map<string, { stamp: string; fields: Fields }>();
const MAX_KEPT = 8;

/**
 * Reads the positions of the fields of a JSON5 file. A file that cannot be read has none. Those of the last files are kept:
 * each explanation of an event asks for the lines of all mappings.
 */
export function readFields(file: string, texts?: FileTexts): Fields {
  const stamp = texts?.has(file) ? undefined : fileStamp(file);
  const known = kept.get(file);
  if (stamp !== undefined && known?.stamp === stamp) return known.fields;
  const fields = parseFields(file, texts);
  if (stamp === undefined) return fields;
  kept.delete(file);
  kept.set(file, { stamp, fields });
  for (const oldest of [...kept.keys()].slice(0, -MAX_KEPT)) kept.delete(oldest);
  return fields;
}

function parseFields(file: string, texts: FileTexts | undefined): Fields {
  const parsed = readJson5(file, texts);
  const text = parsed.ok ? readText(file, texts) : "";
  const found = new Map<string, number>();
  const placeAt = createPlaces(text);
  for (const { path, index } of readMembers(readTree(text))) found.set(path, index);
  const place = (path: string): TextPosition | undefined => {
    const index = found.get(path);
    if (index !== undefined) return placeAt(index);
    const around = parentPath(path);
    return around === "" ? undefined : place(around);
  };
  return { has: (path) => found.has(path), place };
}

/** Renders a value as JSON5 in which members stand on the lines that they have in a file, as far as their order allows it. */
export function renderAtLines(value: unknown, fields: Fields | undefined): string {
  let [text, line] = ["", 1];
  const add = (member: unknown, path: string): void => {
    if (typeof member !== "object" || member === null) {
      text += typeof member === "number" ? String(member) : JSON.stringify(member);
      return;
    }
    const isList = Array.isArray(member);
    text += isList ? "[" : "{";
    for (const [key, inner] of Object.entries(member)) {
      const at = joinPath(path, isList ? Number(key) : key);
      const own = (fields?.has(at) ? fields.place(at)?.line : undefined) ?? line;
      if (own > line) text += "\n".repeat(own - line);
      line = Math.max(line, own);
      if (!isList) text += `${JSON.stringify(key)}:`;
      add(inner, at);
      text += ",";
    }
    text += isList ? "]" : "}";
  };
  add(value, "");
  return text;
}

export type ParsedJson5 =
  | { ok: true; value: unknown; /** Keys that are there twice. */ duplicates: Issue[] }
  /** `message` says what the file is or cannot be; for a syntax error with its place. */
  | ({ ok: false; message: string } & Partial<TextPosition>);

/** Numbers that may have more digits than JavaScript keeps. */
const LONG_NUMBER = /\d[\d.]{15}|\d[eE]\+?\d{3}/;

/** Puts the text of a number in the place of one that JavaScript cannot hold, as `parseJson` does in bodies. */
function keepDigits(value: unknown, node: TextNode | undefined, text: string): unknown {
  if (node === undefined) return value;
  if (typeof value === "number") {
    const written = text.slice(node.start, node.end).replace(/^\+/, "");
    return isLongNumber(written) ? written : value;
  }
  if (Array.isArray(value))
    return value.map((member, index) => keepDigits(member, node.items?.[index]?.value, text));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      key,
      keepDigits(member, getMember(node, key)?.value, text),
    ]),
  );
}

/** JSON is JSON5, and the platform reads it many times as fast: all that ships is JSON, and each start and command reads it. */
function parseEither(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return JSON5.parse(text);
  }
}

/**
 * Parses JSON5. A number that JavaScript cannot hold is the text of its digits, so that it equals the same number of a body.
 * @throws SyntaxError with line and column if the text is not JSON5
 */
export function parseExactJson5(text: string): unknown {
  const value = parseEither(text);
  return LONG_NUMBER.test(text) ? keepDigits(value, readTree(text), text) : value;
}

function isWhole(text: string): boolean {
  try {
    parseEither(text);
    return true;
  } catch {
    return false;
  }
}

/** Says what stands where JSON5 ends to be valid: one character, never more of the text, which may be a secret. */
function describeSyntaxError({ message }: Error, before: string): string {
  const found = /invalid character '(.+)' at/s.exec(message)?.[1];
  if (found === undefined) return "the text ends before its objects, lists and quotes are closed";
  if (/[\u2018-\u201f]/.test(found)) return `${found} is no quote of JSON5: write " or '`;
  if (found === "\\n") return "the line before it ends within a text that has no closing quote";
  if (isWhole(before))
    return `"${found}" is not expected here: the object before it is complete; take out what follows`;
  return `"${found}" is not expected here; look for a comma, a quote or a bracket before it that is missing or too many`;
}

/** The place of the first byte of a file that is not UTF-8; undefined if there is none, or a text stands in for the file. */
function findOtherEncoding(
  file: string,
  text: string,
  texts?: FileTexts,
): TextPosition | undefined {
  const index = text.indexOf("\ufffd");
  if (index < 0 || texts?.has(file) || isUtf8(readFileSync(file))) return undefined;
  return createPlaces(text)(index);
}

function parseJson5(text: string): ParsedJson5 {
  if (readTree(text) === undefined)
    return { ok: false, message: "is empty: write an object, such as {}" };
  try {
    if (isTooDeep(parseEither(text), MAX_FILE_DEPTH))
      return { ok: false, message: `is nested deeper than ${MAX_FILE_DEPTH} levels` };
    return { ok: true, value: parseExactJson5(text), duplicates: findDuplicateKeys(text) };
  } catch (error) {
    const { lineNumber: line, columnNumber: column } = error as {
      lineNumber?: number;
      columnNumber?: number;
    };
    if (line === undefined || column === undefined)
      return { ok: false, message: "is not valid JSON5" };
    const lines = text.split("\n").slice(0, line);
    const last = lines.pop()?.slice(0, column - 1) ?? "";
    const before = [...lines, last].join("\n");
    return {
      ok: false,
      message: `is not valid JSON5 at line ${line}, column ${column}: ${describeSyntaxError(error as Error, before)}`,
      line,
      column,
    };
  }
}

/** Reads a JSON5 file and finds keys that are there twice. A syntax error is reported with line and column, never with its text. */
export function readJson5(file: string, texts?: FileTexts): ParsedJson5 {
  try {
    const text = readText(file, texts);
    const other = findOtherEncoding(file, text, texts);
    if (!other) return parseJson5(text);
    const { line, column } = other;
    const message = `is not UTF-8 at line ${line}, column ${column}: save it in this encoding`;
    return { ok: false, message, ...other };
  } catch (error) {
    return {
      ok: false,
      message: `${file} cannot be read: ${describeFileError(error)}`,
    };
  }
}
