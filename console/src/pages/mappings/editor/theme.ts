import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const highlight = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--text)", fontWeight: "600" },
  { tag: tags.string, color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--warn)" },
  { tag: [tags.lineComment, tags.blockComment], color: "var(--quiet)", fontStyle: "italic" },
  { tag: [tags.separator, tags.squareBracket, tags.brace], color: "var(--quiet)" },
]);

/** Custom properties of the page reach into the shadow root: the editor has the page's colours in both themes. */
const look = EditorView.theme({
  "&": {
    height: "100%",
    backgroundColor: "var(--page)",
    color: "var(--text)",
    fontSize: "var(--text-s)",
  },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--quiet)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground":
    {
      backgroundColor: "var(--selected)",
    },
  ".cm-signs": { width: "1.4em", textAlign: "center" },
  ".cm-sign": { fontWeight: "700" },
  ".cm-sign.yes": { color: "var(--good)" },
  ".cm-sign.no": { color: "var(--bad)" },
  ".cm-sign.unknown": { color: "var(--warn)" },
  ".cm-reason": {
    color: "var(--bad)",
    fontFamily: "var(--sans)",
    fontSize: "var(--text-xs)",
    paddingLeft: "2ch",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)",
    color: "var(--text)",
    border: "1px solid var(--line)",
    boxShadow: "var(--shadow)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": {
    backgroundColor: "var(--selected)",
    color: "var(--text)",
  },
  ".cm-completionDetail": { color: "var(--quiet)", fontStyle: "normal", marginLeft: "1.5em" },
  ".cm-completionIcon": { display: "none" },
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)" },
  ".cm-panels input, .cm-panels button": { fontFamily: "var(--sans)" },
  ".cm-diagnostic": { fontFamily: "var(--sans)", whiteSpace: "pre-wrap" },
  ".cm-changedLine": { backgroundColor: "var(--good-soft)" },
  ".cm-deletedChunk": { backgroundColor: "var(--bad-soft)" },
  ".cm-x-function, .cm-x-variable": { color: "var(--accent)" },
  ".cm-x-name": { color: "var(--info)" },
  ".cm-x-keyword, .cm-x-operator": { color: "var(--plot-4)" },
  ".cm-x-number": { color: "var(--warn)" },
  ".cm-x-comment": { color: "var(--quiet)" },
});

export const theme: Extension = [look, syntaxHighlighting(highlight)];
