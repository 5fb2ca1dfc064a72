import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { AskError, signIn } from "../api.ts";
import { useAction } from "../resource.ts";
import { Button } from "./basic.tsx";
import { Dialog } from "./dialog.tsx";
import { TextField } from "./fields.tsx";

/** Asks for the gateway token. Escape closes it without an answer, if there is an `onClose`. */
export function TokenDialog(props: {
  title: string;
  action: string;
  children: ComponentChildren;
  onDone?: () => void;
  onClose?: () => void;
}) {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [submit, busy] = useAction(
    async () => {
      const refused = await signIn(token.trim());
      setError(refused);
      if (refused === null) props.onDone?.();
    },
    ({ message }) => setError(message),
  );
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <div class="body">
          <p>{props.children}</p>
          <TextField
            label="Gateway token"
            type="password"
            value={token}
            onInput={setToken}
            error={error}
            required
            autoFocus
          />
        </div>
        <footer>
          <Button kind="primary" submit busy={busy}>
            {props.action}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

const wanted = signal<((given: boolean) => void) | null>(null);

const isTokenNeeded = (error: unknown): boolean =>
  error instanceof AskError && error.code === "token_needed";

/** Does what may need the gateway token again: if the gateway says so, asks for it and does it once more. */
export async function withToken<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (
      !isTokenNeeded(error) ||
      !(await new Promise<boolean>((resolve) => (wanted.value = resolve)))
    )
      throw error;
    return run();
  }
}

/** Shows the question of `withToken`. Mounted once in the page. */
export function TokenQuestion() {
  const answer = wanted.value;
  if (!answer) return null;
  const settle = (given: boolean): void => {
    wanted.value = null;
    answer(given);
  };
  return (
    <TokenDialog
      title="Show the token again"
      action="Go on"
      onDone={() => settle(true)}
      onClose={() => settle(false)}
    >
      The gateway writes files only if its token was given in the last 15 minutes.
    </TokenDialog>
  );
}
