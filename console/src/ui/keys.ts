import { useLayoutEffect, useRef } from "preact/hooks";

/** What keys do, by the name of the key: `j`, `/`, `Escape`, `ctrl+Enter` (also with Command). */
export type Keys = Readonly<Record<string, () => void>>;

/** Whether keys are text at the moment: plain keys then belong to the field, those with Control still work. */
function isTyping(event: KeyboardEvent): boolean {
  // Events of the editor, which lives in a shadow root, name its host; the path has the element itself.
  const target = event.composedPath()[0];
  return target instanceof HTMLElement && (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Listens to keys while the component is shown. */
export function useKeys(keys: Keys): void {
  const current = useRef(keys);
  current.current = keys;
  // With the elements, not after they are painted: a key that is pressed as soon as they show is not lost.
  useLayoutEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.altKey) return;
      const control = event.ctrlKey || event.metaKey;
      // Behind a dialog the keys of the page rest; Escape closes the dialog alone.
      if (!control && (isTyping(event) || document.querySelector("dialog[open]"))) return;
      const run = current.current[control ? `ctrl+${event.key}` : event.key];
      if (!run) return;
      event.preventDefault();
      run();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
