/** The surroundings of a position in a JSON5 text. The text may be incomplete. */
export interface TextContext {
  /** The names around the position: `["match", "payload", "data.total"]`. Lists count as `[]`. */
  path: readonly string[];
  /** The position is in the name of a member, not in a value. */
  isKey: boolean;
  /** True directly in an object, false directly in a list, null outside of both. */
  isInObject: boolean | null;
  /** The start of the word or the text at the position, after its opening quote. */
  from: number;
  /** The quote of the text that the position is in; empty outside of texts. */
  quote: string;
  /** The expression up to the position, if the position is inside of `{{ … }}`. */
  expression: string | null;
}

interface Level {
  name: string | null;
  isObject: boolean;
  /** A name and its colon were read, and its value comes next. */
  hasName: boolean;
}

/** Comments, texts, signs and other words of JSON5. */
export const TOKEN =
  /\/\/.*|\/\*[^]*?(?:\*\/|$)|"(?:[^"\\]|\\[^])*(?:"|$)|'(?:[^'\\]|\\[^])*(?:'|$)|[{}[\]:,]|[^\s{}[\]:,"'/]+/g;

const readName = (token: string): string => token.replace(/^["']|["']$/g, "");

/** True if a text token has its closing quote. */
const isClosed = (token: string): boolean =>
  token.length > 1 && token.endsWith(token[0] as string) && !/(?:^|[^\\])(?:\\\\)*\\.$/.test(token);

/** Takes a bracket, a colon or a comma into account. */
function walkSign(sign: string, open: Level[], last: string): void {
  const here = open.at(-1);
  if (sign === "{" || sign === "[")
    open.push({ name: null, isObject: sign === "{", hasName: false });
  else if (sign === "}" || sign === "]") open.pop();
  else if (sign === ":" && here) Object.assign(here, { name: readName(last), hasName: true });
  else if (sign === "," && here) Object.assign(here, { name: null, hasName: false });
}

/** Finds where a position of a JSON5 text is. */
export function findContext(text: string, position: number): TextContext {
  const open: Level[] = [];
  let [last, from, quote] = ["", position, ""];
  for (const { 0: token, index } of text.slice(0, position).matchAll(TOKEN)) {
    if (/^\/[/*]/.test(token)) continue;
    const isSign = token.length === 1 && "{}[]:,".includes(token);
    const touches = index + token.length === position;
    const isText = token.startsWith('"') || token.startsWith("'");
    if (isSign) walkSign(token, open, last);
    else if (touches && isText && !isClosed(token)) [from, quote] = [index + 1, token[0] as string];
    else if (touches && !isText) from = index;
    last = token;
  }
  const here = open.at(-1);
  const path = open.flatMap(({ name, isObject }) =>
    isObject ? (name === null ? [] : [name]) : ["[]"],
  );
  const written = quote === "" ? "" : text.slice(from, position);
  const start = written.lastIndexOf("{{");
  const expression =
    start >= 0 && !written.slice(start).includes("}}") ? written.slice(start + 2) : null;
  return {
    path,
    isKey: here?.isObject === true && !here.hasName,
    isInObject: here?.isObject ?? null,
    from,
    quote,
    expression,
  };
}
