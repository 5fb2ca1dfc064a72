import { useEffect, useState } from "preact/hooks";
import type { ApprovalView } from "../../../../src/operate/people/approvals.ts";
import { ask } from "../../api.ts";
import { recountApprovals } from "../../open-approvals.ts";
import { useAction } from "../../resource.ts";
import { Button } from "../../ui/basic.tsx";
import { confirmed, FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { useKeys } from "../../ui/keys.ts";
import { lazy } from "../../ui/lazy.tsx";
import { toast, toastError } from "../../ui/toast.tsx";

const AlwaysDialog = lazy(async () => (await import("./always.tsx")).AlwaysDialog);

type Verdict = ApprovalView["verdicts"][number];

/** The name of each decision, and the key that makes it. */
const VERDICTS: Record<Verdict, { label: string; key: string; done: string }> = {
  approve: { label: "Approve", key: "a", done: "Approved" },
  deny: { label: "Deny", key: "d", done: "Denied" },
  repeat: { label: "Repeat the call", key: "r", done: "The call is repeated" },
  done: { label: "Treat as done", key: "t", done: "Treated as done" },
  give_up: { label: "Give up", key: "x", done: "The run is ended" },
};

/** The question before a decision that cannot be taken back and that may do harm. */
const QUESTIONS: Partial<Record<Verdict, { title: string; text: string }>> = {
  repeat: { title: "Make this call again?", text: "It may have been carried out already." },
  give_up: { title: "End this run?", text: "It ends as failed. What it has done stays done." },
};

/** Asks for the words that the agent gets with a denial. */
function DenyDialog({ onDeny, onClose }: { onDeny(note: string): void; onClose(): void }) {
  const [note, setNote] = useState("");
  return (
    <FormDialog
      title="Deny this call"
      action="Deny"
      danger
      onSubmit={() => onDeny(note.trim())}
      onClose={onClose}
    >
      <TextField
        label="Reason"
        value={note}
        onInput={setNote}
        hint="The agent reads it, and goes on. It may be empty."
        autoFocus
      />
    </FormDialog>
  );
}

const toKind = (verdict: Verdict): { kind?: "primary" | "danger" } =>
  verdict === "done"
    ? {}
    : { kind: verdict === "approve" || verdict === "repeat" ? "primary" : "danger" };

/** The decisions that were made here, by approval and question: an answer that was under way meanwhile may still show the call as open. */
const sent = new Set<string>();

export interface DecideProps {
  /** True if it is shown because the call before it was decided about: then it takes the focus. */
  isNext: boolean;
  /** Reads again what was decided. */
  reload(): void;
  /** Goes on to the next call. */
  goOn(): void;
}

/** The rest of the buttons and keys of the next call: the second press of a key or the mouse was meant for the call before. */
const REST_MS = 700;

/** The buttons that decide, each with its key. */
export function Decide({
  approval,
  isNext,
  reload,
  goOn,
}: DecideProps & { approval: ApprovalView }) {
  const [isResting, setResting] = useState(isNext);
  useEffect(() => {
    const timer = setTimeout(() => setResting(false), REST_MS);
    return () => clearTimeout(timer);
  }, []);
  const [dialog, setDialog] = useState<"deny" | "always" | null>(null);
  const question = `${approval.id} ${approval.verdicts.join()}`;
  const [send, isSending] = useAction(
    async (verdict: Verdict, more: object = {}) => {
      const asked = QUESTIONS[verdict];
      if (asked && !(await confirmed(asked.title, asked.text, VERDICTS[verdict].label, true)))
        return;
      await ask(`/approvals/${encodeURIComponent(approval.id)}`, {
        method: "POST",
        body: { verdict, ...more },
      });
      sent.add(question);
      recountApprovals();
      setDialog(null);
      toast(`${VERDICTS[verdict].done}: ${approval.tool}.`);
      reload();
      goOn();
    },
    (error) => {
      toastError(error);
      // Another person may have decided: what is shown then is their decision.
      reload();
    },
  );
  const busy = isSending || isResting;
  const choose = (verdict: Verdict): void =>
    verdict === "deny" ? setDialog("deny") : send(verdict);
  useKeys(
    dialog === null && !busy && !sent.has(question)
      ? Object.fromEntries(
          approval.verdicts.map((verdict) => [
            VERDICTS[verdict].key,
            // A key that is held down decides about one call.
            (event: KeyboardEvent) => event.repeat || choose(verdict),
          ]),
        )
      : {},
  );
  if (sent.has(question)) return null;
  return (
    <div class="actions approvals-decide">
      {approval.verdicts.map((verdict) => (
        <Button
          key={verdict}
          busy={busy}
          {...toKind(verdict)}
          title={`${VERDICTS[verdict].label} (${VERDICTS[verdict].key})`}
          onClick={() => choose(verdict)}
        >
          {VERDICTS[verdict].label} <kbd aria-hidden="true">{VERDICTS[verdict].key}</kbd>
        </Button>
      ))}
      {approval.verdicts.includes("approve") ? (
        <Button busy={busy} onClick={() => setDialog("always")}>
          Always approve…
        </Button>
      ) : null}
      {dialog === "deny" ? (
        <DenyDialog
          onClose={() => setDialog(null)}
          onDeny={(note) => send("deny", note === "" ? {} : { note })}
        />
      ) : null}
      {dialog === "always" ? (
        <AlwaysDialog
          approval={approval}
          busy={busy}
          onClose={() => setDialog(null)}
          onSave={(any) => send("approve", { always: { any } })}
        />
      ) : null}
    </div>
  );
}
