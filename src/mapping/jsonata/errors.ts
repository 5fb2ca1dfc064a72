import type { CodeError } from "../../vocabulary/debug-notes.ts";
import { placeIn } from "../excerpt.ts";
import { GuardError, isJsonataFunction, LengthError } from "./values.ts";

/** An error that JSONata throws. Its messages quote the input, and are set when the whole expression has failed. */
interface JsonataError {
  code?: unknown;
  /** The character behind the token, or behind the bracket that opens a call. */
  position?: unknown;
  token?: unknown;
  index?: unknown;
  value?: unknown;
  message?: unknown;
}

const MAX_MESSAGE = 1_000;
const MAX_VALUE = 200;
/** Failures for which JSONata's message says less than ours. */
const OWN_WORDS = ["D1011", "D1012", "D2015"];

const getErrorCode = ({ code }: JsonataError): string | undefined =>
  typeof code === "string" && /^[A-Z]\d{4}$/.test(code) ? code : undefined;

/** Failures of a length, of a list or of the time that a long input takes. */
export const isTooLong = (error: unknown): boolean =>
  error instanceof LengthError ||
  ["D1012", "D2015"].includes(getErrorCode(error as JsonataError) ?? "");

/** Renders a failure in words of our own, which quote no value. Names of functions come from the source. */
export function renderFailure(error: unknown): string {
  if (error instanceof GuardError) return `the expression ${error.message}`;
  const { token, index } = error as JsonataError;
  const code = getErrorCode(error as JsonataError);
  if (code === "D1012") return "the expression took too long";
  if (code === "D1011") return "the expression calls itself too deeply";
  if (code === "D2015") return "the expression makes a list that is too long";
  const name = typeof token === "string" && /^\w+$/.test(token) ? ` in $${token}` : "";
  if (code === undefined)
    return `the expression failed${name}: an argument is missing or has the wrong type`;
  // Codes of the signature: other codes count members of a list too.
  const argument =
    name !== "" && code.startsWith("T04") && typeof index === "number" ? `, argument ${index}` : "";
  return `the expression failed${name}${argument} (JSONata ${code})`;
}

/** Returns the place of an error in the source; undefined if the error does not name it. */
function getOffset({ position, token }: JsonataError, source: string): number | undefined {
  if (typeof position !== "number") return undefined;
  if (token === "(end)") return source.length;
  const before = source.slice(0, position);
  const name = typeof token === "string" ? token : "";
  if (name !== "" && before.endsWith(name)) return position - name.length;
  const called = /\$?([\w]*)\s*\($/.exec(before);
  if (called && (name === "" || called[1] === name)) return called.index;
  // Inside a function that another one calls, JSONata gives the place of that other one.
  const own = source.indexOf(`$${name}`);
  if (/^\w+$/.test(name) && own >= 0 && own === source.lastIndexOf(`$${name}`)) return own;
  return Math.max(0, position - 1);
}

/** Describes a value, for a message that does not name it. */
function renderCause({ value }: JsonataError, message: string): string {
  if (value === undefined || isJsonataFunction(value)) return "";
  try {
    const text = JSON.stringify(value);
    return message.includes(text)
      ? ""
      : `; got: ${text.slice(0, MAX_VALUE)}${text.length > MAX_VALUE ? "…" : ""}`;
  } catch {
    return "";
  }
}

/** Describes a failure to the operator: JSONata's own message, which quotes values, and the place in the expression. */
export function describeFailure(error: unknown, source: string): CodeError {
  const thrown = error as JsonataError;
  const offset = getOffset(thrown, source);
  const place = offset === undefined ? {} : placeIn(source, offset);
  const code = getErrorCode(thrown);
  if (error instanceof GuardError || code === undefined || OWN_WORDS.includes(code))
    return { message: renderFailure(error), ...place };
  const said = String(thrown.message);
  return {
    message: `${said.slice(0, MAX_MESSAGE)}${renderCause(thrown, said)} (JSONata ${code})`,
    ...place,
  };
}

/** Syntax of other template languages: the text before and behind the place where JSONata stops, and what to write instead. */
const REMEDIES: readonly (readonly [before: RegExp, behind: RegExp, remedy: string])[] = [
  [/^\s*\{\{/, /(?:)/, "leave out {{ and }} here"],
  [/=$/, /^=/, "compare with one `=`"],
  [/=$/, /^>/, "write a function as `function($x) { … }`"],
  [/&$/, /^&/, "write `and`"],
  [/(?:)/, /^\|\|/, "write `or`, or `a ?: b` for the first value"],
  [/(?:)/, /^\|/, "there are no filters: write `$uppercase(a)`, or `a ?: 'none'` for a default"],
  [/(?:)/, /^!/, "write `$not(a)`"],
  [/^\s*(?:\/\w*)?$/, /^(?:[#^>]|\w?$)/, "there are no blocks: write `a ? 'yes' : 'no'`"],
  [/^\s*$/, /^\./, "leave out the first dot"],
  [/^\s*\{[^:}]+$/, /^\}?$/, "write two braces"],
  [/\.$/, /^\d/, "write a position as `a[0]`"],
  [/\.$/, /^[@#]/, "write a name with other characters in backticks"],
  [/\w\s+$/, /^\w/, "an operator is missing, or a name with spaces needs backticks"],
  [/\?$/, /^\./, "write `.`: a missing field is no error"],
  [/(?:)/, /^\\'/, "write a text with ' in double quotes"],
  [/\/[im]*$/, /^[a-z]/, "the flags are i and m, and all matches are found"],
];

const getRemedy = (source: string, offset: number): string => {
  const [before, behind] = [source.slice(0, offset), source.slice(offset)];
  const found = REMEDIES.find(([first, second]) => first.test(before) && second.test(behind));
  return found ? `; ${found[2]}` : "";
};

/** Describes the reason and the place of a syntax error: it quotes the operator's own text alone. */
export function describeSyntaxError(
  error: unknown,
  source: string,
): { message: string; detail?: string; offset?: number } {
  const thrown = error as JsonataError;
  const code = getErrorCode(thrown);
  const offset = getOffset(thrown, source);
  const reason = String(thrown.message).slice(0, MAX_VALUE);
  if (offset === undefined) return { message: `is not valid JSONata: ${reason}` };
  const said = `: ${reason}${getRemedy(source, offset)}${code === undefined ? "" : ` (${code})`}`;
  const { line, column, excerpt } = placeIn(source, offset);
  return {
    message: `is not valid JSONata at line ${line}, column ${column}${said}`,
    detail: excerpt,
    offset,
  };
}
