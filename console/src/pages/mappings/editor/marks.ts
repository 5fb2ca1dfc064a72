import { RangeSet, StateEffect, StateField, type Extension, type Range } from "@codemirror/state";
import {
  Decoration,
  EditorView,
  gutter,
  GutterMarker,
  WidgetType,
  type DecorationSet,
} from "@codemirror/view";

/** The result of the condition in a line, with its reason. */
export interface LineMark {
  /** A character of the line. */
  at: number;
  result: boolean | "unknown";
  reason: string;
}

const SIGNS = new Map<LineMark["result"], readonly [sign: string, name: string]>([
  [true, ["✓", "yes"]],
  [false, ["✗", "no"]],
  ["unknown", ["?", "unknown"]],
]);

class Sign extends GutterMarker {
  readonly mark: LineMark;
  constructor(mark: LineMark) {
    super();
    this.mark = mark;
  }
  override eq(other: Sign): boolean {
    return other.mark.result === this.mark.result && other.mark.reason === this.mark.reason;
  }
  override toDOM(): HTMLElement {
    const [sign, name] = SIGNS.get(this.mark.result) ?? ["?", "unknown"];
    const element = document.createElement("span");
    element.className = `cm-sign ${name}`;
    element.textContent = sign;
    element.title = this.mark.reason;
    return element;
  }
}

/** Shows the reason behind the line of a condition that does not hold. */
class Reason extends WidgetType {
  readonly text: string;
  constructor(text: string) {
    super();
    this.text = text;
  }
  override eq(other: Reason): boolean {
    return other.text === this.text;
  }
  override toDOM(): HTMLElement {
    const element = document.createElement("span");
    element.className = "cm-reason";
    element.textContent = this.text;
    return element;
  }
}

export const setMarks = StateEffect.define<readonly LineMark[]>();

interface Drawn {
  signs: RangeSet<Sign>;
  reasons: DecorationSet;
}

const NONE: Drawn = { signs: RangeSet.empty, reasons: Decoration.none };
/** Of several conditions in one line the one that decides is shown. */
const RANK = (result: LineMark["result"]): number =>
  result === false ? 2 : result === "unknown" ? 1 : 0;

const drawn = StateField.define<Drawn>({
  create: () => NONE,
  update(before, transaction) {
    const moved = transaction.docChanged
      ? {
          signs: before.signs.map(transaction.changes),
          reasons: before.reasons.map(transaction.changes),
        }
      : before;
    const marks = transaction.effects.find((effect) => effect.is(setMarks))?.value;
    if (!marks) return moved;
    const { doc } = transaction.state;
    const lines = new Map<number, LineMark>();
    for (const mark of marks) {
      const { from } = doc.lineAt(Math.min(mark.at, doc.length));
      const other = lines.get(from);
      if (!other || RANK(mark.result) > RANK(other.result)) lines.set(from, mark);
    }
    const sorted = [...lines].toSorted(([one], [other]) => one - other);
    const reasons = sorted
      .filter(([, { result }]) => result !== true)
      .map(([from, { reason }]): Range<Decoration> => {
        const widget = Decoration.widget({ widget: new Reason(reason), side: 1 });
        return widget.range(doc.lineAt(from).to);
      });
    return {
      signs: RangeSet.of(sorted.map(([from, mark]) => new Sign(mark).range(from))),
      reasons: Decoration.set(reasons),
    };
  },
  provide: (field) => EditorView.decorations.from(field, ({ reasons }) => reasons),
});

/** Marks beside the lines: how each condition came out. */
export const conditionMarks: Extension = [
  drawn,
  gutter({ class: "cm-signs", markers: (view) => view.state.field(drawn).signs }),
];
