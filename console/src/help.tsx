import { Dialog } from "./ui/dialog.tsx";

/** Keys that work on every page; pages have their own besides. */
const SHORTCUTS: readonly (readonly [string, string])[] = [
  ["/", "search"],
  ["j, k", "next and previous row of the list"],
  ["e", "edit beside the event"],
  ["f", "freeze the event as a test"],
  ["p", "pause Live, or go on"],
  ["Ctrl Enter", "evaluate what is in the editor"],
  ["Ctrl S", "open the save dialog"],
  ["Escape, Tab", "leave the editor"],
  ["g then a letter", "go to a page: o overview, l live, e events, f failures, r runs, a approvals, m mappings"],
  ["?", "this list"],
];

/** The list of keys, loaded when somebody asks for it. */
export function Help({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys body">
        {SHORTCUTS.map(([key, text]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
