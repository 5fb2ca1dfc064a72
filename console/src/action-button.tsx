import type { ComponentChildren } from "preact";
import { useAction } from "./resource.ts";
import { Button, type ButtonProps } from "./ui/basic.tsx";
import { confirmed } from "./ui/dialog.tsx";
import { toast, toastError } from "./ui/toast.tsx";

interface ActionProps<T> extends Pick<ButtonProps, "kind" | "disabled" | "title"> {
  /** The words of the button, and of the one that agrees to the question unless that has others. */
  label: string;
  /** Asked before, about what cannot be taken back. */
  question?: readonly [title: string, text: ComponentChildren, action?: string] | undefined;
  send(): Promise<T>;
  /** The words of the toast: what was done. */
  done: string | ((answer: T) => string);
  onDone?(): void;
}

/** A button that sends a request, after a question if it has one, and says what was done. */
export function ActionButton<T>(props: ActionProps<T>) {
  const { label, question, send, done, onDone, ...shown } = props;
  const [run, busy] = useAction(async () => {
    if (question) {
      const [title, text, action = label] = question;
      if (!(await confirmed(title, text, action, props.kind === "danger"))) return;
    }
    const answer = await send();
    toast(typeof done === "string" ? done : done(answer));
    onDone?.();
  }, toastError);
  return (
    <Button {...shown} busy={busy} onClick={run}>
      {label}
    </Button>
  );
}
