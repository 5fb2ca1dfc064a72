import { useState } from "preact/hooks";
import { ask } from "../../api.ts";
import { useAction } from "../../resource.ts";
import { Button } from "../../ui/basic.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { toast } from "../../ui/toast.tsx";
import type { Change } from "./types.ts";

/** What was written; null where masks would change what the mappings do, by these fields. */
interface Frozen {
  written: string | null;
  masked: string[];
  changedBy: string[] | null;
}

/** Keeps an event as a test, with what the text in the editor makes of it. */
export function FreezeDialog(props: {
  event: string;
  change: Change | null;
  onClose(): void;
  onDone(): void;
}) {
  const [name, setName] = useState("");
  const [keep, setKeep] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [freeze, isBusy] = useAction(async () => {
    const kept = keep
      .split(",")
      .map((one) => one.trim())
      .filter((one) => one !== "");
    const body = {
      event: props.event,
      ...(props.change ? { change: props.change } : {}),
      ...(name.trim() === "" ? {} : { name: name.trim() }),
      ...(kept.length === 0 ? {} : { keep: kept }),
    };
    const { fixture } = await ask<{ fixture: Frozen }>("/fixtures", { method: "POST", body });
    if (fixture.changedBy) {
      setKeep([...kept, ...fixture.changedBy].join(", "));
      throw new Error(
        `Masking changes what the mappings do, by ${fixture.changedBy.join(", ")}. Freeze again to keep their values.`,
      );
    }
    const masked = fixture.masked.length === 0 ? "" : ` Masked: ${fixture.masked.join(", ")}.`;
    toast(`Kept as the test ${fixture.written ?? ""}.${masked}`);
    props.onDone();
  }, setError);
  return (
    <Dialog title="Freeze as test" onClose={props.onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          freeze();
        }}
      >
        <div class="body">
          <p>
            Writes the event into hooks.testsDir, with what the text in the editor makes of it.
            <code>rouse test</code> runs it, and so does each save. Values that look private are
            masked.
          </p>
          <TextField
            label="Name"
            value={name}
            onInput={setName}
            hint="Default: the mapping that takes the event."
            autoFocus
          />
          <TextField
            label="Keep the values of"
            value={keep}
            onInput={setKeep}
            hint="Fields that are not masked, with commas between them."
          />
          {error ? (
            <p class="bad" role="alert">
              {error.message}
            </p>
          ) : null}
        </div>
        <footer>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button kind="primary" submit busy={isBusy}>
            Freeze
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
