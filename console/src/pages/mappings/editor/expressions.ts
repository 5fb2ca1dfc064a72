import { syntaxTree } from "@codemirror/language";
import { Prec, RangeSetBuilder } from "@codemirror/state";
import {
  Decoration,
  ViewPlugin,
  type DecorationSet,
  type EditorView,
  type ViewUpdate,
} from "@codemirror/view";

/** The kinds of tokens in an expression. The first pattern that fits wins. */
const TOKENS: readonly (readonly [string, RegExp])[] = [
  ["comment", /\/\*[^]*?(?:\*\/|$)/y],
  ["text", /"(?:[^"\\]|\\[^])*"?|'(?:[^'\\]|\\[^])*'?/y],
  ["name", /`[^`]*`?/y],
  ["function", /\$\w+(?=\s*\()/y],
  ["variable", /\$\$?\w*/y],
  ["number", /\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y],
  ["keyword", /\b(?:and|or|in|true|false|null|function)\b/y],
  ["name", /[A-Za-z_]\w*/y],
  ["operator", /[~:!<>]=?|:=|\.\.|\*\*|[-+*/%&|^=?@#]/y],
];

/** Reads an expression piece by piece. What is no piece of one is left out. */
export function* readTokens(code: string): Generator<{ kind: string; start: number; end: number }> {
  for (let at = 0; at < code.length;) {
    let end = at + 1;
    for (const [kind, pattern] of TOKENS) {
      pattern.lastIndex = at;
      const found = pattern.exec(code);
      if (!found || found[0] === "") continue;
      end = at + found[0].length;
      yield { kind, start: at, end };
      break;
    }
    at = end;
  }
}

/** The expressions of a text literal, without their braces. */
const EXPRESSION = /\{\{([^]*?)(?:\}\}|$)/g;
const WHEN = /(?:^|[\s{,"'])when["']?\s*:\s*$/;
const marks = new Map<string, Decoration>();

function getMark(kind: string): Decoration {
  const mark = marks.get(kind) ?? Decoration.mark({ class: `cm-x-${kind}` });
  marks.set(kind, mark);
  return mark;
}

function addTokens(builder: RangeSetBuilder<Decoration>, code: string, from: number): void {
  for (const { kind, start, end } of readTokens(code))
    builder.add(from + start, from + end, getMark(kind));
}

function decorate(view: EditorView): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  const { doc } = view.state;
  for (const { from, to } of view.visibleRanges)
    syntaxTree(view.state).iterate({
      from,
      to,
      enter({ name, from: start, to: end }) {
        if (name !== "String") return;
        const text = doc.sliceString(start, end);
        if (WHEN.test(doc.sliceString(Math.max(0, start - 20), start)))
          return addTokens(builder, text.slice(1, -1), start + 1);
        for (const found of text.matchAll(EXPRESSION))
          addTokens(builder, found[1] ?? "", start + found.index + 2);
      },
    });
  return builder.finish();
}

const coloured = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;
    constructor(view: EditorView) {
      this.decorations = decorate(view);
    }
    update(update: ViewUpdate): void {
      if (
        update.docChanged ||
        update.viewportChanged ||
        syntaxTree(update.startState) !== syntaxTree(update.state)
      )
        this.decorations = decorate(update.view);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

/** Colours the expressions inside of texts, which JSON5 itself knows nothing of: above the colour of the text around them. */
export const expressions = Prec.high(coloured);
