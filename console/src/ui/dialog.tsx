import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Button } from "./basic.tsx";

/** A window above the page, closed by Escape; without `onClose` it stays until it is taken away. The focus goes back to where it was, which the browser's `dialog` sees to when it is closed. */
export function Dialog(props: {
  title: string;
  onClose?: (() => void) | undefined;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const element = useRef<HTMLDialogElement>(null);
  // A layout effect runs before the page is drawn: the first key press belongs to the dialog.
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    // A dialog that is only taken away leaves the focus nowhere.
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      class={`dialog ${props.wide ? "wide" : ""}`}
      aria-label={props.title}
      // The event of a dialog that was taken away comes when there is no element any more.
      onClose={() => {
        // A browser closes a dialog at the second Escape, whatever the page says.
        if (element.current) (props.onClose ?? (() => element.current?.showModal()))();
      }}
    >
      <header>
        <h2>{props.title}</h2>
        {props.onClose ? (
          <button
            type="button"
            class="icon"
            aria-label="Close"
            onClick={() => element.current?.close()}
          >
            ×
          </button>
        ) : null}
      </header>
      {props.children}
    </dialog>
  );
}

/** A dialog with fields, which Enter or the button below them submits. */
export function FormDialog({
  title,
  action,
  danger = false,
  busy = false,
  disabled = false,
  cancel = "Cancel",
  onSubmit,
  onClose,
  children,
}: {
  title: string;
  /** The words of the button. */
  action: string;
  danger?: boolean;
  busy?: boolean;
  disabled?: boolean;
  cancel?: string;
  onSubmit(): void;
  onClose(): void;
  children: ComponentChildren;
}) {
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        <div class="body">{children}</div>
        <footer>
          <Button onClick={onClose}>{cancel}</Button>
          <Button kind={danger ? "danger" : "primary"} submit busy={busy} disabled={disabled}>
            {action}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

interface Question {
  title: string;
  text: ComponentChildren;
  action: string;
  danger: boolean;
  answer(yes: boolean): void;
}

const question = signal<Question | null>(null);

/** Asks before something is done that cannot be taken back. Resolves to whether the reader agreed. */
export function confirmed(
  title: string,
  text: ComponentChildren,
  action: string,
  danger = false,
): Promise<boolean> {
  return new Promise((resolve) => {
    question.value = {
      title,
      text,
      action,
      danger,
      answer(yes) {
        question.value = null;
        resolve(yes);
      },
    };
  });
}

/** Shows the question of `confirmed`. Mounted once in the page. */
export function Questions() {
  const asked = question.value;
  if (!asked) return null;
  return (
    <Dialog title={asked.title} onClose={() => asked.answer(false)}>
      <div class="body">{asked.text}</div>
      <footer>
        <Button onClick={() => asked.answer(false)}>Cancel</Button>
        <Button kind={asked.danger ? "danger" : "primary"} onClick={() => asked.answer(true)}>
          {asked.action}
        </Button>
      </footer>
    </Dialog>
  );
}
