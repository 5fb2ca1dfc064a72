import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import {
  bracketMatching,
  indentOnInput,
  LanguageSupport,
  type Language,
} from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { json5Language } from "codemirror-json5";
import { createCompletion, type Words } from "./complete.ts";
import { expressions } from "./expressions.ts";
import { renderInsertion } from "./insertion.ts";
import { conditionMarks, setMarks, type LineMark } from "./marks.ts";
import { theme } from "./theme.ts";

export type { Words } from "./complete.ts";
export type { LineMark } from "./marks.ts";

/** A problem of the text. */
export interface EditorProblem {
  start: number;
  end: number;
  message: string;
  severity: "error" | "warning";
}

export interface EditorOptions {
  text: string;
  readOnly: boolean;
  label: string;
  onChange(text: string): void;
  onEvaluate(): void;
  onSave(): void;
}

/** The editor as the page uses it. */
export interface Editor {
  setText(text: string): void;
  setReadOnly(readOnly: boolean): void;
  /** Puts the path of a field where the cursor is: as an expression in a text, as a condition elsewhere. `value`: what it has. */
  insertPath(path: string, value: unknown): void;
  setMarks(marks: readonly LineMark[]): void;
  setProblems(problems: readonly EditorProblem[]): void;
  setWords(words: Words): void;
  /** Shows what differs from another text; null shows the text alone. */
  compareWith(text: string | null): void;
  focus(): void;
  close(): void;
}

/** Keys of the page that work inside of the editor too. */
const pageKeys = ({ onEvaluate, onSave }: EditorOptions) => {
  const run = (action: () => void) => () => {
    action();
    return true;
  };
  return keymap.of([
    { key: "Mod-Enter", run: run(onEvaluate), preventDefault: true },
    { key: "Mod-s", run: run(onSave), preventDefault: true },
  ]);
};

/**
 * Replaces a selection by what is typed. Left to the browser, text in place of a selection gets its style as an attribute,
 * which the page's policy forbids.
 */
const replaceSelected = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { main } = view.state.selection;
    const text = event.data;
    if (
      event.inputType !== "insertText" ||
      text === null ||
      main.empty ||
      view.composing ||
      view.state.readOnly
    )
      return false;
    event.preventDefault();
    const insert = () =>
      view.state.update(view.state.replaceSelection(text), {
        userEvent: "input.type",
        scrollIntoView: true,
      });
    const isHandled = view.state
      .facet(EditorView.inputHandler)
      .some((handle) => handle(view, main.from, main.to, text, insert));
    if (!isHandled) view.dispatch(insert());
    return true;
  },
});

/** The extensions of the editor. `changing` has those that are reconfigured later. */
function listExtensions(
  options: EditorOptions,
  getWords: () => Words | null,
  changing: readonly Extension[],
): Extension[] {
  return [
    pageKeys(options),
    replaceSelected,
    lineNumbers(),
    conditionMarks,
    lintGutter(),
    history(),
    drawSelection(),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    autocompletion({ override: [createCompletion(getWords)] }),
    keymap.of([
      ...closeBracketsKeymap,
      ...completionKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...defaultKeymap,
      indentWithTab,
    ]),
    // Its types name the CommonJS build of the same package.
    new LanguageSupport(json5Language as unknown as Language),
    expressions,
    theme,
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": options.label, tabindex: "0" }),
    ...changing,
    EditorView.updateListener.of(
      (update) => update.docChanged && options.onChange(update.state.doc.toString()),
    ),
  ];
}

/** Creates the editor in a shadow root: there its styles are constructed sheets, which the page's policy allows. */
export function createEditor(host: HTMLElement, options: EditorOptions): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  let words: Words | null = null;
  const [readOnly, comparison] = [new Compartment(), new Compartment()];
  const readOnlyIf = (is: boolean) => [EditorState.readOnly.of(is), EditorView.editable.of(true)];
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: options.text,
      extensions: listExtensions(options, () => words, [
        readOnly.of(readOnlyIf(options.readOnly)),
        comparison.of([]),
      ]),
    }),
  });
  const inside = (at: number): number => Math.max(0, Math.min(at, view.state.doc.length));
  return {
    setText(text) {
      if (text !== view.state.doc.toString())
        view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    },
    setReadOnly: (is) => view.dispatch({ effects: readOnly.reconfigure(readOnlyIf(is)) }),
    insertPath(path, value) {
      if (view.state.readOnly) return;
      const found = renderInsertion(
        view.state.doc.toString(),
        view.state.selection.main.head,
        path,
        value,
      );
      if (!found) return;
      const { at, text, selected = { from: text.length, to: text.length } } = found;
      const selection = { anchor: at + selected.from, head: at + selected.to };
      view.dispatch({
        changes: { from: at, insert: text },
        selection,
        scrollIntoView: true,
        userEvent: "input",
      });
      view.focus();
    },
    setMarks: (marks) => view.dispatch({ effects: setMarks.of(marks) }),
    setProblems(problems) {
      const shown = problems.map(({ start, end, ...rest }) => ({
        from: inside(start),
        to: inside(end),
        ...rest,
      }));
      view.dispatch(setDiagnostics(view.state, shown));
    },
    setWords: (next) => void (words = next),
    compareWith(text) {
      const shown = text === null ? [] : unifiedMergeView({ original: text, mergeControls: false });
      view.dispatch({ effects: comparison.reconfigure(shown) });
    },
    focus: () => view.focus(),
    close: () => view.destroy(),
  };
}
