import { WrittenNumber } from "../../../exact-json.ts";
import { findContext, TOKEN } from "./context.ts";

/** A text to insert. The selected part of it is what typing replaces. */
export interface Insertion {
  at: number;
  text: string;
  /** Counted from the begin of the inserted text. */
  selected?: { from: number; to: number };
}

interface Token {
  kind: "sign" | "comment" | "text" | "word";
  text: string;
  start: number;
  end: number;
}

const kindOf = (text: string): Token["kind"] =>
  /^\/[/*]/.test(text)
    ? "comment"
    : /^["']/.test(text)
      ? "text"
      : /^[{}[\]:,]$/.test(text)
        ? "sign"
        : "word";

const readTokens = (text: string): Token[] =>
  [...text.matchAll(TOKEN)].map(({ 0: token, index }) => ({
    kind: kindOf(token),
    text: token,
    start: index,
    end: index + token.length,
  }));

/** Longer texts of a body are not conditions: that the field is there is one. */
const MOST = 100;

/** A condition that holds for what the field has now, as it is written. */
function toCondition(value: unknown): string {
  if (value instanceof WrittenNumber) return value.source;
  const isShort = typeof value === "string" && value.length <= MOST;
  return isShort || typeof value === "number" || typeof value === "boolean"
    ? JSON.stringify(value)
    : "{ $exists: true }";
}

const toKey = (path: string): string => (/^[A-Za-z_]\w*$/.test(path) ? path : JSON.stringify(path));

/** The end of the value that begins with a token: of an object or a list, that of its last bracket. */
function findEnd(tokens: readonly Token[], first: number): number {
  let depth = 0;
  for (let index = first; index < tokens.length; index++) {
    const { kind, text, end } = tokens[index] as Token;
    if (kind !== "sign") {
      if (kind !== "comment" && depth === 0) return end;
      continue;
    }
    if (text === "{" || text === "[") depth++;
    else if (text === "}" || text === "]") depth--;
    if (depth <= 0) return end;
  }
  return (tokens.at(-1) as Token).end;
}

const isOneOf = (token: Token | undefined, signs: string): boolean =>
  token?.kind === "sign" && signs.includes(token.text);

/** Inserts outside of a text: a member of an object, an item of a list, or a value, with the commas that it needs. */
function insertBetween(
  text: string,
  position: number,
  path: string,
  value: unknown,
): Insertion | null {
  const tokens = readTokens(text).filter(({ kind }) => kind !== "comment");
  const next = tokens.findIndex(({ start }) => start >= position);
  const [before, after] =
    next === -1 ? [tokens.at(-1), undefined] : [tokens[next - 1], tokens[next]];
  const expression = JSON.stringify(`{{${path}}}`);
  if (isOneOf(before, ":")) {
    // A value that stands there already stays: the field goes behind it.
    if (after && !isOneOf(after, ",}]:"))
      return insertBetween(text, findEnd(tokens, next), path, value);
    return { at: position, text: `${/\s$/.test(text.slice(0, position)) ? "" : " "}${expression}` };
  }
  // Between a key and its colon.
  if (isOneOf(after, ":")) return after ? insertBetween(text, after.end, path, value) : null;
  const open = findContext(text, position).isInObject;
  if (open === null) return null;
  const [start, condition] = open ? [`${toKey(path)}: `, toCondition(value)] : ["", expression];
  const comma = isOneOf(before, "{[,") ? "" : ", ";
  const end = after && !isOneOf(after, "}],") ? ", " : "";
  const from = comma.length + start.length;
  return {
    at: position,
    text: `${comma}${start}${condition}${end}`,
    selected: { from, to: from + condition.length },
  };
}

/**
 * Makes the insertion for a click on a field of the body. In a text, it is an expression. Between the members of an object,
 * it is a condition that the field's value meets. In place of a missing value, it is an expression. The text stays valid.
 * Null if the position allows none of these.
 */
export function renderInsertion(
  text: string,
  position: number,
  path: string,
  value: unknown,
): Insertion | null {
  const token = readTokens(text).find(
    ({ start, end, kind }) =>
      start < position && (position < end || (position === end && kind === "comment")),
  );
  if (token?.kind === "comment")
    return insertBetween(text, token.end + (token.text.startsWith("//") ? 1 : 0), path, value);
  if (token?.kind === "word") return insertBetween(text, token.end, path, value);
  if (token?.kind !== "text") return insertBetween(text, position, path, value);
  const { quote, expression, isKey, path: names } = findContext(text, position);
  // A path alone is an expression, and so is all of `match.when`.
  const isPath = expression !== null || isKey || names.slice(-2).join(".") === "match.when";
  const escaped = JSON.stringify(isPath ? path : `{{${path}}}`).slice(1, -1);
  return { at: position, text: quote === "'" ? escaped.replaceAll("'", String.raw`\'`) : escaped };
}
