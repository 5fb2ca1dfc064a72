import { joinParts, type TextPart } from "../core/text.ts";
import {
  isEmptyValue,
  jsonataInput,
  readSpelling,
  renderValue,
  type Evaluated,
  type Expression,
  type TemplateContext,
} from "./template-context.ts";
import { compileExpression, type ExpressionOptions } from "./jsonata/expression.ts";
import type { RenderedPiece } from "./types.ts";

/** Calls `finish` with the values: immediately, or later if one of them is a promise. */
export function whenSettled<T, R>(
  values: readonly (T | Promise<T>)[],
  finish: (values: T[]) => R,
): R | Promise<R> {
  return values.some((value) => value instanceof Promise)
    ? Promise.all(values).then(finish)
    : finish(values as T[]);
}

export interface RenderedText {
  /** Each text and each expression's value, also of lines that are left out: what they miss is why. */
  pieces: RenderedPiece[];
  parts: TextPart[];
  /** The expressions that gave nothing or null. */
  missing: string[];
  /** Those, and the ones that gave an empty value. */
  empty: string[];
}

export type Rendered = ({ ok: true } & RenderedText) | { ok: false; message: string };

export interface Template {
  readonly source: string;
  /** The number of its expressions. */
  readonly expressions: number;
  /** True if the template has no expression. */
  readonly literal: boolean;
  /** The text before the first expression. */
  readonly start: string;
  render(scope: TemplateContext): Rendered | Promise<Rendered>;
}

export interface TemplateOptions extends ExpressionOptions {
  /** Encode `:` in interpolated values, so that an outside value cannot make up a session key's parts. */
  encodeColon?: boolean;
}

/** Matches what a value may not bring into a session key: the separator, control characters, and the sign of their codes. */
// oxlint-disable-next-line no-control-regex -- control characters are what is encoded
const ENCODED = /[%:\u0000-\u001f\u007f]/g;
const encode = (text: string): string => text.toWellFormed().replace(ENCODED, encodeURIComponent);

/** Codes of JSONata: the expression ends within a text, a name, a comment, a regular expression or brackets. */
const IS_UNFINISHED = /\(S0(?:101|105|106|203|207|302)\)$/;

interface Uncompiled {
  ok: false;
  message: string;
  detail?: string;
  /** The place in the text. */
  offset: number;
}

/** Compiles the expression that begins at `start`. It ends at the first `}}` that is not a part of it, at `end`. */
function compileInside(
  source: string,
  start: number,
  options: TemplateOptions,
): { ok: true; expression: Expression; end: number } | Uncompiled {
  const failures = new Map<number, Uncompiled>();
  for (let end = source.indexOf("}}", start); end >= 0; end = source.indexOf("}}", end + 1)) {
    const written = source.slice(start, end);
    const expression = written.trim();
    const compiled = compileExpression(expression, options);
    if (compiled.ok) return { ...compiled, end };
    const offset = start + written.length - written.trimStart().length + (compiled.offset ?? 0);
    const message = `{{ ${expression.slice(0, 80)} }}: ${compiled.message}`;
    failures.set(end, { ...compiled, offset, message });
    if (IS_UNFINISHED.test(compiled.message) && source.includes("}}", end + 1)) continue;
    // The expression ends before braces that it cannot have.
    const earlier = failures.get(offset) ?? failures.get(offset - 1);
    return earlier ?? { ...compiled, offset, message };
  }
  const offset = start - 2;
  return { ok: false, message: `the {{ at character ${offset + 1} has no }}`, offset };
}

/**
 * Renders what an expression gave. What a plain path leads to prints as it was written in its place. Any other number that the body
 * has, and that was not computed, is found by its value.
 */
function renderResult(
  { path, computes }: Expression,
  value: unknown,
  scope: TemplateContext,
): string {
  const spelling = path && typeof value === "number" ? readSpelling(path, scope) : undefined;
  if (spelling !== undefined) return spelling;
  // An item may be a number that was taken out of a list.
  const isItem = path?.length === 1 && path[0] === "item" && !Number.isInteger(value);
  const isByValue = typeof value !== "string" && (path ? isItem : computes !== true);
  return renderValue(value, isByValue ? jsonataInput(scope) : undefined);
}

/** Compiles a text with `{{ expression }}` in it. */
export function compileTemplate(
  source: string,
  options: TemplateOptions = {},
):
  | { ok: true; template: Template }
  | { ok: false; message: string; detail?: string; offset?: number } {
  const pieces: (string | Expression)[] = [];
  let at = 0;
  for (;;) {
    const open = source.indexOf("{{", at);
    if (open < 0) break;
    const compiled = compileInside(source, open + 2, options);
    if (!compiled.ok) return compiled;
    if (open > at) pieces.push(source.slice(at, open));
    pieces.push(compiled.expression);
    at = compiled.end + 2;
  }
  if (at < source.length) pieces.push(source.slice(at));
  const expressions = pieces.filter((piece) => typeof piece !== "string");
  const finish = (values: Evaluated[], scope: TemplateContext): Rendered => {
    const rendered: RenderedText = { pieces: [], parts: [], missing: [], empty: [] };
    const left = values.values();
    for (const piece of pieces) {
      if (typeof piece === "string") {
        rendered.pieces.push({ text: piece });
        continue;
      }
      const { source: expression } = piece;
      const result = left.next().value as Evaluated;
      if (!result.ok)
        return { ok: false, message: `{{ ${expression.slice(0, 80)} }}: ${result.message}` };
      const isMissing = result.value === undefined || result.value === null;
      if (isMissing) rendered.missing.push(expression);
      if (isEmptyValue(result.value)) rendered.empty.push(expression);
      const printed = renderResult(piece, result.value, scope);
      const text = options.encodeColon ? encode(printed) : printed;
      rendered.pieces.push({ text, expression, ...(isMissing && { missing: true }) });
    }
    rendered.parts = joinParts(
      rendered.pieces.map(({ text, expression }) => ({ text, outside: expression !== undefined })),
    );
    return { ok: true, ...rendered };
  };
  return {
    ok: true,
    template: {
      source,
      expressions: expressions.length,
      literal: expressions.length === 0,
      start: typeof pieces[0] === "string" ? pieces[0] : "",
      render: (scope) =>
        whenSettled(
          expressions.map((expression) => expression.evaluate(scope)),
          (values) => finish(values, scope),
        ),
    },
  };
}

/** Returns whether a line has expressions and all of them gave an empty value. */
const isLeftOut = (line: Template, { empty }: RenderedText): boolean =>
  line.expressions > 0 && empty.length === line.expressions;

/**
 * Joins templates into one, with a line break between them. A line is left out if it has expressions and all of them give
 * an empty value; what it misses is not reported, except under `strict`. Of blank lines that then stand together one
 * remains, and none at the ends. Lines inside a value stay as they are.
 */
export function joinLines(lines: readonly Template[], { strict }: { strict: boolean }): Template {
  const finish = (rendered: Rendered[]): Rendered => {
    const joined: RenderedText = { pieces: [], parts: [], missing: [], empty: [] };
    let lineBreak = "\n";
    for (const [index, value] of rendered.entries()) {
      if (!value.ok) return value;
      const line = lines[index] as Template;
      const leftOut = isLeftOut(line, value);
      joined.pieces.push(...(index > 0 ? [{ text: "\n" }] : []), ...value.pieces);
      if (strict || !leftOut) joined.missing.push(...value.missing);
      joined.empty.push(...value.empty);
      if (leftOut) continue;
      if (line.literal && line.source.trim() === "") {
        lineBreak = "\n\n";
        continue;
      }
      if (joined.parts.length > 0) joined.parts.push({ text: lineBreak, outside: false });
      lineBreak = "\n";
      joined.parts.push(...value.parts);
    }
    return { ok: true, ...joined, parts: joinParts(joined.parts) };
  };
  const expressions = lines.reduce((sum, line) => sum + line.expressions, 0);
  return {
    source: lines.map((line) => line.source).join("\n"),
    expressions,
    literal: expressions === 0,
    start: lines[0]?.start ?? "",
    render: (scope) =>
      whenSettled(
        lines.map((line) => line.render(scope)),
        finish,
      ),
  };
}
