import type { TextNode } from "./json5-tree.ts";

/** The end of a line, also for comments. */
const BREAK = /\r\n|[\n\r\u2028\u2029]/;

/** The position at which the line of a position begins. */
const lineStart = (text: string, index: number): number =>
  index - (text.slice(0, index).split(BREAK).at(-1) as string).length;

/** The layout of a text. */
export interface TextStyle {
  eol: string;
  /** The indent of one level. */
  unit: string;
  /** True if its keys stand between quotes, as in JSON. */
  quotesKeys: boolean;
}

/** Finds the layout of a JSON5 text. */
export function readStyle(text: string, root: TextNode | undefined): TextStyle {
  const key = root?.items?.[0]?.start;
  return {
    eol: /\r\n|\n|\r/.exec(text)?.[0] ?? "\n",
    unit: /[\n\r]\t/.test(text) ? "\t" : "  ",
    quotesKeys: key !== undefined && /["']/.test(text.charAt(key)),
  };
}

/** The white space at the beginning of the line in which a position stands. */
export function indentAt(text: string, index: number): string {
  return /^[ \t]*/.exec(text.slice(lineStart(text, index), index))?.[0] ?? "";
}

/** Splits a text into its lines, at what line breaks it has. */
export const splitLines = (text: string): string[] => text.split(/\r\n|\n|\r/);

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
const renderKey = (key: string, { quotesKeys }: TextStyle): string =>
  quotesKeys || !IDENTIFIER.test(key) ? JSON.stringify(key) : key;

const isPlain = (value: unknown): boolean => typeof value !== "object" || value === null;

/** The place of a value. */
interface Room {
  style: TextStyle;
  /** Undefined: on one line. */
  indent: string | undefined;
  /** True if the last item has a comma behind it. */
  trailing: boolean;
}

/** Renders plain JSON as a text of this layout has it. Lists of plain values stay on one line. */
export function renderWritten(value: unknown, room: Room): string {
  if (isPlain(value)) return JSON.stringify(value);
  const { style, indent, trailing } = room;
  const isList = Array.isArray(value);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  const entries = Object.entries(value as object).filter(([, inner]) => inner !== undefined);
  if (entries.length === 0) return open + close;
  const isFlat = indent === undefined || (isList && value.every(isPlain));
  const inner: Room = isFlat
    ? { ...room, indent: undefined }
    : { ...room, indent: indent + style.unit };
  const items = entries.map(
    ([key, one]) => `${isList ? "" : `${renderKey(key, style)}: `}${renderWritten(one, inner)}`,
  );
  if (isFlat) return isList ? `[${items.join(", ")}]` : `{ ${items.join(", ")} }`;
  const { eol } = style;
  return `${open}${eol}${items.map((item) => inner.indent + item).join(`,${eol}`)}${trailing ? "," : ""}${eol}${indent}${close}`;
}

/** True if an object or a list ends on the line on which it begins. */
export const isOnOneLine = (text: string, { start, end }: TextNode): boolean =>
  !BREAK.test(text.slice(start, end));

const insert = (text: string, index: number, added: string): string =>
  text.slice(0, index) + added + text.slice(index);

const hasTrailingComma = ({ items = [], commas }: TextNode): boolean =>
  items.length > 0 && commas.length === items.length;

/** Adds an item at the end of a list or an object, between what leads to it and what follows it. */
function append(text: string, around: TextNode, [lead, item, rest]: readonly string[]): string {
  const behind = text.slice(0, around.end - 1).trimEnd().length;
  const isTrailing = hasTrailingComma(around);
  const withItem = insert(text, behind, `${lead}${item}${isTrailing ? "," : ""}${rest}`);
  const last = around.items?.at(-1);
  return last && !isTrailing ? insert(withItem, last.value.end, ",") : withItem;
}

/**
 * Adds an item at the end of a list or an object, on a line of its own. No other character changes, but for a comma.
 * @param render gets the indent of the new line.
 */
export function appendOnLine(
  text: string,
  around: TextNode,
  style: TextStyle,
  render: (indent: string) => string,
): string {
  const { items = [], start } = around;
  const close = around.end - 1;
  const last = items.at(-1);
  const outer = indentAt(text, close);
  const indent =
    last && BREAK.test(text.slice(start, last.start))
      ? indentAt(text, last.start)
      : outer + style.unit;
  const behind = text.slice(0, close).trimEnd().length;
  const isClosedBelow = BREAK.test(text.slice(behind, close));
  const rest = isClosedBelow ? "" : style.eol + outer;
  return append(text, around, [style.eol + indent, render(indent), rest]);
}

/** Adds a value at the end of a list, or a member at the end of an object, as what stands there is laid out. */
export function appendItem(
  text: string,
  around: TextNode,
  style: TextStyle,
  { key, value }: { key?: string; value: unknown },
): string {
  const { items = [], isObject } = around;
  const trailing = hasTrailingComma(around);
  const render = (indent: string | undefined): string =>
    `${key === undefined ? "" : `${renderKey(key, style)}: `}${renderWritten(value, { style, indent, trailing })}`;
  if (items.length > 0 && isOnOneLine(text, around))
    return append(text, around, [" ", render(undefined), ""]);
  if (items.length === 0 && !isObject && isPlain(value) && around.end - around.start === 2)
    return insert(text, around.start + 1, render(undefined));
  return appendOnLine(text, around, style, render);
}

/** Removes an item with its comma, and its line if nothing else stands there. */
export function removeItem(text: string, { items = [], commas }: TextNode, index: number): string {
  const item = items[index];
  if (!item) return text;
  const own = commas[index];
  const earlier = own === undefined ? commas[index - 1] : undefined;
  let [start, end] = [item.start, item.value.end];
  let after = text;
  if (own !== undefined) {
    after = text.slice(0, own) + text.slice(own + 1);
    if (own === end && text.charAt(own + 1) === " ") end++;
  } else if (earlier !== undefined) {
    after = text.slice(0, earlier) + text.slice(earlier + 1);
    [start, end] = [start - 1, end - 1];
    while (start > earlier && after.charAt(start - 1) === " ") start--;
  }
  const line = lineStart(after, start);
  const rest = /^[ \t]*(?:\r\n|[\n\r])/.exec(after.slice(end))?.[0];
  const isAlone = rest !== undefined && after.slice(line, start).trim() === "" && line > 0;
  return isAlone
    ? after.slice(0, line) + after.slice(end + rest.length)
    : after.slice(0, start) + after.slice(end);
}
