import { renderMarkdown, type Dialect, type Mark } from "./dialect.ts";

/** A text and what is marked in it, in UTF-16 units, for channels whose marks stand beside the text. */
export interface StyledText<S> {
  text: string;
  ranges: { start: number; length: number; style: S }[];
}

/** Stand around what is styled until its place is known: the signs that Unicode keeps for use inside of programs. */
const OPEN = 0xfdd0;
const CLOSE = 0xfde0;
const SIGNS = /([\uFDD0-\uFDEF])/;

/** Renders markdown as text and ranges; what no style is given for stays readable as text. */
export function renderStyled<S extends string>(
  markdown: string,
  styles: Record<Mark | "code", S>,
  dialect: Dialect,
): StyledText<S> {
  const known = [...new Set(Object.values<S>(styles))];
  const styled = (kind: Mark | "code", text: string): string => {
    const index = known.indexOf(styles[kind]);
    return text === ""
      ? ""
      : String.fromCharCode(OPEN + index) + text + String.fromCharCode(CLOSE + index);
  };
  const code = (text: string): string => styled("code", text);
  const marked = renderMarkdown(markdown.replace(new RegExp(SIGNS, "g"), ""), {
    mark: styled,
    once: true,
    code,
    block: code,
    ...dialect,
  });
  const ranges: StyledText<S>["ranges"] = [];
  let text = "";
  for (const part of marked.split(SIGNS)) {
    const sign = SIGNS.test(part) ? part.charCodeAt(0) : 0;
    const style = known[sign - (sign < CLOSE ? OPEN : CLOSE)];
    if (sign === 0) text += part;
    else if (style !== undefined && sign < CLOSE)
      ranges.push({ start: text.length, length: -1, style });
    else {
      const open = ranges.findLast((range) => range.length === -1 && range.style === style);
      if (open) open.length = text.length - open.start;
    }
  }
  return { text, ranges };
}
