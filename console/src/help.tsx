import { PAGES } from "./pages.ts";
import { Dialog } from "./ui/dialog.tsx";

/** Keys that work on every page; pages have their own besides. */
const SHORTCUTS: readonly (readonly [string, string])[] = [
  ["/", "search"],
  ["j, k", "next and previous row of the list"],
  ["e", "edit beside the event"],
  ["f", "freeze the event as a test"],
  ["p", "pause Live, or go on"],
  ["a, d", "approve or deny the call that is selected"],
  ["r, t, x", "repeat, treat as done, or end a call whose outcome is unknown"],
  ["Ctrl Enter", "evaluate what is in the editor"],
  ["Ctrl S", "open the save dialog"],
  ["Escape, Tab", "leave the editor"],
  [
    "g, then a letter",
    `go to a page: ${PAGES.flatMap(({ key, title }) => (key ? [`${key} ${title}`] : [])).join(", ")}`,
  ],
  ["?", "this list"],
];

/** The list of keys, loaded when somebody asks for it. */
export function Help({ onClose }: { onClose(): void }) {
  // Live and some other pages have no search.
  const hasSearch = document.querySelector('main input[type="search"]') !== null;
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys body">
        {SHORTCUTS.filter(([key]) => key !== "/" || hasSearch).map(([key, text]) => (
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
