import { useState } from "preact/hooks";
import { ask } from "../../api.ts";
import { useAction } from "../../resource.ts";
import { go, href } from "../../router.ts";
import { Button } from "../../ui/basic.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { toast } from "../../ui/toast.tsx";
import { withToken } from "../../ui/token.tsx";
import { checkChange, landChange } from "./changes.ts";
import { toDraftName } from "./new-text.ts";
import type { Change } from "./types.ts";
import type { Workbench } from "./use-workbench.ts";

/** The text of one mapping as that of a draft. */
const toDraftText = (name: string, mapping: string): string =>
  `{\n  id: ${JSON.stringify(name)},\n  mappings: [\n${mapping
    .trim()
    .split("\n")
    .map((line) => (line === "" ? "" : `    ${line}`))
    .join("\n")},\n  ],\n}\n`;

/** Makes a draft of the text in the editor, and evaluates it beside live traffic. */
export function TryDialog({ bench, onClose }: { bench: Workbench; onClose(): void }) {
  const { written, evaluated, id, eventId } = bench;
  const [name, setName] = useState(() => `${toDraftName(evaluated.good?.mapping ?? id)}-try`);
  const [error, setError] = useState<string | null>(null);
  const [start, busy] = useAction(
    async () => {
      setError(null);
      const draft = name.trim();
      const change: Change = {
        kind: "draft-text",
        name: draft,
        text: toDraftText(draft, written.text),
        new: true,
      };
      const { base } = await checkChange(change);
      const landed = await withToken(() => landChange(change, { base, confirm: [] }));
      if (!landed.landed) throw new Error(`Nothing was written: ${landed.reason}`);
      await ask(`/trials/${encodeURIComponent(draft)}`, { method: "POST" });
      onClose();
      toast(`The draft ${draft} is on trial. It is not live.`);
      go(href("mappings", `draft:${draft}`, { event: eventId }));
    },
    ({ message }) => setError(message),
  );
  return (
    <Dialog title="Try" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          start();
        }}
      >
        <div class="body">
          <p>
            Writes the text in the editor as a draft, and evaluates it beside live traffic. It
            starts no run and sends nothing; the trial counts what it would have done. Your text
            here stays as it is.
          </p>
          <TextField
            label="Name of the draft"
            value={name}
            onInput={setName}
            error={error}
            required
            autoFocus
            hint="Lower-case letters, digits and -."
          />
        </div>
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" submit busy={busy}>
            Try
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
