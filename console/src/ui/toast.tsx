import { signal } from "@preact/signals";
import type { Tone } from "./tone.ts";

interface Toast {
  id: number;
  text: string;
  tone: Tone;
  undo?: (() => void) | undefined;
}

const SHOWN_MS = 6000;
const toasts = signal<readonly Toast[]>([]);
let last = 0;

const drop = (id: number): void => {
  toasts.value = toasts.value.filter((one) => one.id !== id);
};

/** Says for six seconds what an action did; `undo` adds a button that takes it back. Errors stay until they are closed. */
export function toast(
  text: string,
  { tone = "good", undo }: { tone?: Tone; undo?: () => void } = {},
): void {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-3), { id, text, tone, undo }];
  if (tone !== "bad") setTimeout(() => drop(id), SHOWN_MS);
}

/** Shows the error of an action. */
export const toastError = (error: Error): void => toast(error.message, { tone: "bad" });

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, tone, undo }) => (
        <div key={id} class={`toast ${tone}`}>
          <span>{text}</span>
          {undo ? (
            <button
              type="button"
              class="button plain"
              onClick={() => {
                undo();
                drop(id);
              }}
            >
              Undo
            </button>
          ) : null}
          <button type="button" class="icon" aria-label="Close" onClick={() => drop(id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
