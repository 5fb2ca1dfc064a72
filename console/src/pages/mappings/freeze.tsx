import { useState } from "preact/hooks";
import type { FrozenTest } from "../../../../src/operate/tests/freeze.ts";
import { ask } from "../../api.ts";
import { useAction } from "../../resource.ts";
import { FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { toast } from "../../ui/toast.tsx";
import type { Change } from "./types.ts";

const toFields = (text: string): string[] => text.split(/[\s,]+/).filter((field) => field !== "");

/** Keeps an event as a test, with what today's mappings or the text in the editor make of it. */
export function FreezeDialog(props: {
  event: string;
  /** Null: today's mappings. */
  change: Change | null;
  onClose(): void;
  onDone(): void;
}) {
  const { event, change, onClose, onDone } = props;
  const [name, setName] = useState("");
  const [mask, setMask] = useState("");
  const [keep, setKeep] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [freeze, isBusy] = useAction(async () => {
    const body = {
      event,
      ...(change ? { change } : {}),
      ...(name.trim() === "" ? {} : { name: name.trim() }),
      mask: toFields(mask),
      keep: toFields(keep),
    };
    const { fixture } = await ask<{ fixture: FrozenTest }>("/fixtures", { method: "POST", body });
    if (fixture.changedBy) {
      setKeep([...toFields(keep), ...fixture.changedBy].join(" "));
      throw new Error(
        `Masking changes what the mappings do, by ${fixture.changedBy.join(", ")}. These fields stand below now: freeze again to keep their values.`,
      );
    }
    const masked =
      fixture.masked.length === 0
        ? "No value looked private."
        : `Masked: ${fixture.masked.join(", ")}.`;
    toast(`Wrote ${fixture.written ?? ""}. ${masked} “rouse test” runs it.`);
    onDone();
  }, setError);
  return (
    <FormDialog
      title="Freeze as a test"
      action="Freeze"
      busy={isBusy}
      onSubmit={freeze}
      onClose={onClose}
    >
      <p>
        Writes the request into <code>hooks.testsDir</code>, with what{" "}
        {change ? "the text in the editor makes" : "today's mappings make"} of it.{" "}
        <code>rouse test</code> runs it, and so does each save. Values that look like secrets, mail
        addresses, phone numbers and names are masked.
      </p>
      <TextField
        label="File name"
        value={name}
        onInput={setName}
        hint="Without one, the mapping's."
        autoFocus
      />
      <TextField
        label="Also mask"
        value={mask}
        onInput={setMask}
        hint="Paths of fields, such as payload.note."
      />
      <TextField
        label="Keep"
        value={keep}
        onInput={setKeep}
        hint="Paths of fields whose values stay."
      />
      {error ? (
        <p class="bad" role="alert">
          {error.message}
        </p>
      ) : null}
    </FormDialog>
  );
}
