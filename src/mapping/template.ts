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

/** `missing` are the expressions that gave nothing or null; `empty` are those, and the ones that gave an empty value. */
export type Rendered =
  | { ok: true; parts: TextPart[]; missing: string[]; empty: string[] }
  | { ok: false; message: string };

export interface Template {
  readonly source: string;
  /** The number of its expressions. */
  readonly expressions: number;
  /** True if the template has no expression. */
  readonly literal: boolean;
  /** The text before the first expression. */
  readonly start: string;
  render(scope: TemplateContext): Rendered | Promise<Rendered>;
  /** Renders with each piece kept apart, to explain it. */
  trace(scope: TemplateContext): Promise<TracedTemplate>;
}

type TracedTemplate = { ok: true; pieces: RenderedPiece[] } | { ok: false; message: string };

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
  const expressions = pieces.filter((piece) => typeof piece !== "string").length;
  const finish = (values: (string | Evaluated)[], scope: TemplateContext): Rendered => {
    const parts: TextPart[] = [];
    const missing: string[] = [];
    const empty: string[] = [];
    for (const [index, value] of values.entries()) {
      if (typeof value === "string") {
        parts.push({ text: value, outside: false });
        continue;
      }
      if (!value.ok)
        return {
          ok: false,
          message: `{{ ${(pieces[index] as Expression).source.slice(0, 80)} }}: ${value.message}`,
        };
      const { source: expression } = pieces[index] as Expression;
      if (value.value === undefined || value.value === null) missing.push(expression);
      if (isEmptyValue(value.value)) empty.push(expression);
      const text = renderResult(pieces[index] as Expression, value.value, scope);
      parts.push({ text: options.encodeColon ? encode(text) : text, outside: true });
    }
    return { ok: true, parts: joinParts(parts), missing, empty };
  };
  const evaluate = (scope: TemplateContext) =>
    pieces.map((piece) => (typeof piece === "string" ? piece : piece.evaluate(scope)));
  const render = (scope: TemplateContext): Rendered | Promise<Rendered> =>
    whenSettled(evaluate(scope), (values) => finish(values, scope));
  const trace = async (scope: TemplateContext): Promise<TracedTemplate> => {
    const values = await Promise.all(evaluate(scope));
    const rendered = finish(values, scope);
    if (!rendered.ok) return rendered;
    const toPiece = (value: string | Evaluated, index: number): RenderedPiece => {
      if (typeof value === "string") return { text: value };
      if (!value.ok) return { text: "" };
      const text = renderResult(pieces[index] as Expression, value.value, scope);
      const isMissing = value.value === undefined || value.value === null;
      const { source: expression } = pieces[index] as Expression;
      return {
        text: options.encodeColon ? encode(text) : text,
        expression,
        ...(isMissing ? { missing: true } : {}),
      };
    };
    return { ok: true, pieces: values.map(toPiece) };
  };
  const start = typeof pieces[0] === "string" ? pieces[0] : "";
  return {
    ok: true,
    template: { source, expressions, literal: expressions === 0, start, render, trace },
  };
}

/** Returns whether a line has expressions and all of them gave an empty value. */
const isLeftOut = (line: Template, { empty }: Extract<Rendered, { ok: true }>): boolean =>
  line.expressions > 0 && empty.length === line.expressions;

/**
 * Joins templates into one, with a line break between them. A line is left out if it has expressions and all of them give
 * an empty value; what it misses is not reported, except under `strict`. Of blank lines that then stand together one
 * remains, and none at the ends. Lines inside a value stay as they are.
 */
export function joinLines(lines: readonly Template[], { strict }: { strict: boolean }): Template {
  const finish = (rendered: Rendered[]): Rendered => {
    const parts: TextPart[] = [];
    const missing: string[] = [];
    const empty: string[] = [];
    let lineBreak = "\n";
    for (const [index, value] of rendered.entries()) {
      if (!value.ok) return value;
      const line = lines[index] as Template;
      const leftOut = isLeftOut(line, value);
      if (strict || !leftOut) missing.push(...value.missing);
      empty.push(...value.empty);
      if (leftOut) continue;
      if (line.literal && line.source.trim() === "") {
        lineBreak = "\n\n";
        continue;
      }
      if (parts.length > 0) parts.push({ text: lineBreak, outside: false });
      lineBreak = "\n";
      parts.push(...value.parts);
    }
    return { ok: true, parts: joinParts(parts), missing, empty };
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
    // Lines that are left out are shown too, since what they miss is why.
    async trace(scope) {
      const pieces: RenderedPiece[] = [];
      for (const [index, line] of lines.entries()) {
        const traced = await line.trace(scope);
        if (!traced.ok) return traced;
        pieces.push(...(index > 0 ? [{ text: "\n" }] : []), ...traced.pieces);
      }
      return { ok: true, pieces };
    },
  };
}
