import { useLayoutEffect, useRef } from "preact/hooks";

/** Actions by the name of the key: `j`, `/`, `Escape`, `ctrl+Enter` (also with Command). */
export type Keys = Readonly<Record<string, (event: KeyboardEvent) => void>>;

/** Fields in which letters are no text. */
const WITHOUT_TEXT = /^(?:checkbox|radio|button|submit|reset|file|range|color)$/;

/** The element that has the focus because of a click. */
let clicked: EventTarget | null = null;
addEventListener("pointerdown", (event) => (clicked = event.composedPath()[0] ?? null), {
  capture: true,
});
addEventListener("focusout", (event) => event.target === clicked && (clicked = null), {
  capture: true,
});

const isOpen = (select: HTMLSelectElement): boolean =>
  CSS.supports("selector(:open)") && select.matches(":open");

/** True if keys are text for the focused field. Shortcuts without Control are then off. */
export function isTyping(event: KeyboardEvent): boolean {
  // Events of the editor, which lives in a shadow root, name its host; the path has the element itself.
  const target = event.composedPath()[0];
  if (target instanceof HTMLInputElement) return !WITHOUT_TEXT.test(target.type);
  // Letters choose in a list that is open, or was reached by the keyboard. After a click on it they are the page's again.
  if (target instanceof HTMLSelectElement) return target !== clicked || isOpen(target);
  return (
    target instanceof HTMLElement && (target.isContentEditable || target.tagName === "TEXTAREA")
  );
}

/** True if a dialog is open. The shortcuts of the page behind it are then off. */
export const isBehindDialog = (): boolean => document.querySelector("dialog[open]") !== null;

/** Listens to keys while the component is shown. */
export function useKeys(keys: Keys): void {
  const current = useRef(keys);
  current.current = keys;
  // With the elements, not after they are painted: a key that is pressed as soon as they show is not lost.
  useLayoutEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.altKey) return;
      const control = event.ctrlKey || event.metaKey;
      if (!control && isTyping(event)) return;
      const run = current.current[control ? `ctrl+${event.key}` : event.key];
      if (!run) return;
      const isBehind = isBehindDialog();
      // Escape closes the dialog alone. With Control, keys would be the browser's, which would save the page.
      if (control || !isBehind) event.preventDefault();
      if (isBehind) return;
      run(event);
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
