import { useState } from "preact/hooks";
import { ask } from "../../api.ts";
import { useAction } from "../../resource.ts";
import { Button } from "../../ui/basic.tsx";
import { Dialog, FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { toast, toastError } from "../../ui/toast.tsx";
import { replay, Replayed } from "./replay.tsx";
import type { EventInFull, ReplayView } from "./types.ts";

/** A longer text makes a field slow. */
const MAX_EDITED = 256 * 1024;

const encode = (text: string): string => {
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
};

/** The error if the content type says JSON and the text is not; null otherwise. */
function findJsonError(text: string, contentType: string | null): string | null {
  if (contentType?.includes("json") !== true) return null;
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `This is not JSON: ${(error as Error).message}`;
  }
}

/** The body in a field; what is saved in it comes in as a new event. */
export function EditReplay({
  event,
  onClose,
  onChange,
}: {
  event: EventInFull;
  onClose(): void;
  onChange(): void;
}) {
  const { body, encoding, contentType } = event.request;
  const [text, setText] = useState(body ?? "");
  const [result, setResult] = useState<{ result: ReplayView; dryRun: boolean } | null>(null);
  const [start, busy] = useAction(async (dryRun: boolean) => {
    setResult({ result: await replay(event.id, { dryRun, body: encode(text) }), dryRun });
    if (!dryRun) onChange();
  }, toastError);
  const refused =
    encoding === "base64"
      ? "The body is not text."
      : (body ?? "").length > MAX_EDITED
        ? "The body is too long for this field."
        : null;
  return (
    <Dialog title="Edit and replay" onClose={onClose} wide>
      <div class="body">
        {refused === null ? (
          <TextField
            label={body === null ? "Body (the recorded one is no longer kept)" : "Body"}
            value={text}
            onInput={setText}
            lines={18}
            error={findJsonError(text, contentType)}
            hint="Headers and query stay as they were recorded."
          />
        ) : (
          <>
            <p>
              {refused} Write it into a file, and add <code>--body</code> with its name to this
              command. Without <code>--dry-run</code> it replays:
            </p>
            <pre class="command">rouse events replay {event.id} --dry-run</pre>
          </>
        )}
        {result ? <Replayed {...result} /> : null}
      </div>
      <footer>
        <Button onClick={() => start(true)} busy={busy} disabled={refused !== null}>
          What would it do?
        </Button>
        <Button kind="primary" onClick={() => start(false)} busy={busy} disabled={refused !== null}>
          Replay with this body
        </Button>
      </footer>
    </Dialog>
  );
}

/** Discards an event that failed, with a reason that stays with it. */
export function Discard({
  event,
  onClose,
  onChange,
}: {
  event: EventInFull;
  onClose(): void;
  onChange(): void;
}) {
  const [reason, setReason] = useState("");
  const [start, busy] = useAction(async () => {
    await ask(`/events/${encodeURIComponent(event.id)}/discard`, {
      method: "POST",
      body: { reason },
    });
    toast("Discarded: doctor and bulk replays leave the event out.");
    onClose();
    onChange();
  }, toastError);
  return (
    <FormDialog
      title="Discard this event"
      action="Discard"
      danger
      busy={busy}
      disabled={reason.trim() === ""}
      onSubmit={start}
      onClose={onClose}
    >
      <TextField
        label="Reason"
        value={reason}
        onInput={setReason}
        hint="Why the event is not needed. The reason stays with it."
        required
        autoFocus
      />
    </FormDialog>
  );
}
