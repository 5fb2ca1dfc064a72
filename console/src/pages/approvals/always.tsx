import { useEffect, useState } from "preact/hooks";
import type { ApprovalView } from "../../../../src/operate/people/approvals.ts";
import { ask, AskError } from "../../api.ts";
import { Button } from "../../ui/basic.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Checkboxes } from "../../ui/fields.tsx";
import { visibleText } from "../../ui/format.ts";

/** The names of the arguments of a call. */
const namesOf = (input: unknown): string[] =>
  typeof input === "object" && input !== null && !Array.isArray(input) ? Object.keys(input) : [];

/** Approves a call and saves the rule by which such calls are not asked about again. The rule is shown before it is saved. */
export function AlwaysDialog(props: {
  approval: ApprovalView;
  busy: boolean;
  onSave(any: string[]): void;
  onClose(): void;
}) {
  const { approval, busy, onSave, onClose } = props;
  const [any, setAny] = useState<readonly string[]>([]);
  const [rule, setRule] = useState<{ text: string | null; error: string | null }>({
    text: null,
    error: null,
  });
  useEffect(() => {
    const abort = new AbortController();
    ask<{ rule: string }>(`/approvals/${encodeURIComponent(approval.id)}/rule`, {
      method: "POST",
      body: { any },
      signal: abort.signal,
    })
      .then(({ rule: text }) => setRule({ text, error: null }))
      .catch((error: unknown) => {
        if (!abort.signal.aborted)
          setRule({ text: null, error: error instanceof AskError ? error.message : String(error) });
      });
    return () => abort.abort();
  }, [approval.id, any]);
  const names = namesOf(approval.input);
  return (
    <Dialog title="Always approve such calls" onClose={onClose}>
      <div class="body">
        <p>From now on these calls are made without asking:</p>
        {rule.text === null ? null : <pre class="code">{visibleText(rule.text)}</pre>}
        {rule.error === null ? null : <p class="bad">{rule.error}</p>}
        {names.length === 0 ? null : (
          <Checkboxes
            legend="Arguments that may differ"
            names={names}
            ticked={any}
            onChange={setAny}
          />
        )}
      </div>
      <footer>
        <Button onClick={onClose}>Cancel</Button>
        <Button
          kind="primary"
          busy={busy}
          disabled={rule.text === null}
          onClick={() => onSave([...any])}
        >
          Approve and save the rule
        </Button>
      </footer>
    </Dialog>
  );
}
