import { joinParts, type TextPart } from "../core/text.ts";
import { whenSettled } from "./settle.ts";
import type { Rendered, Template } from "./template.ts";

/** Whether a line has expressions and all of them gave an empty value. */
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
  };
}
