import { useState } from "preact/hooks";
import type { ApprovalView } from "../../../../src/admin/approvals.ts";
import { ask } from "../../api.ts";
import { recountApprovals } from "../../open-approvals.ts";
import { useAction, useResource } from "../../resource.ts";
import { href } from "../../router.ts";
import { Button, Facts, Id, Section, Status, Time } from "../../ui/basic.tsx";
import { Prose } from "../../ui/prose.tsx";
import { confirmed, Dialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { visibleText } from "../../ui/format.ts";
import { JsonTree } from "../../ui/json-tree.tsx";
import { useKeys } from "../../ui/keys.ts";
import { Loaded } from "../../ui/states.tsx";
import { toast, toastError } from "../../ui/toast.tsx";
import { AlwaysDialog } from "./always.tsx";
import { QUESTIONS, VERDICTS, type Verdict } from "./words.ts";

/** What the agent wants to do, in words. */
function Sentence({ approval: { agentId, tool, reason } }: { approval: ApprovalView }) {
  const isUnknown = reason === "outcome_unknown";
  return (
    <p class="approvals-sentence">
      The agent <b>{agentId}</b> {isUnknown ? "called" : "wants to call"} <b class="mono">{tool}</b>
      {isUnknown ? ", and no answer came." : "."}
    </p>
  );
}

/** Asks for the words that the agent gets with a denial. */
function DenyDialog({ onDeny, onClose }: { onDeny(note: string): void; onClose(): void }) {
  const [note, setNote] = useState("");
  return (
    <Dialog title="Deny this call" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onDeny(note.trim());
        }}
      >
        <div class="body">
          <TextField
            label="Reason"
            value={note}
            onInput={setNote}
            hint="The agent reads it, and goes on. It may be empty."
            autoFocus
          />
        </div>
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="danger" submit>
            Deny
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

const toKind = (verdict: Verdict): { kind?: "primary" | "danger" } =>
  verdict === "done"
    ? {}
    : { kind: verdict === "approve" || verdict === "repeat" ? "primary" : "danger" };

/** What was decided here, by approval and question: an answer that was under way meanwhile may still show the call as open. */
const sent = new Set<string>();

/** The buttons that decide, each with its key. */
function Decide({ approval, decided }: { approval: ApprovalView; decided(): void }) {
  const [dialog, setDialog] = useState<"deny" | "always" | null>(null);
  const question = `${approval.id} ${approval.verdicts.join()}`;
  const [send, busy] = useAction(
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
      decided();
    },
    (error) => {
      toastError(error);
      // Another person may have decided: what is shown then is their decision.
      decided();
    },
  );
  const choose = (verdict: Verdict): void =>
    verdict === "deny" ? setDialog("deny") : send(verdict);
  useKeys(
    dialog === null && !busy && !sent.has(question)
      ? Object.fromEntries(
          approval.verdicts.map((verdict) => [VERDICTS[verdict].key, () => choose(verdict)]),
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

function About({ approval }: { approval: ApprovalView }) {
  const { runId, askedAt, expiresAt, decision, refused } = approval;
  return (
    <Facts
      pairs={[
        ["run", <Id id={runId} to={href("runs", runId)} />],
        ["agent", approval.agentId],
        ["asked by", approval.askedBy === null ? null : visibleText(approval.askedBy)],
        [
          "event",
          approval.eventId === null ? null : (
            <Id id={approval.eventId} to={href("events", approval.eventId)} />
          ),
        ],
        ["asked", <Time iso={askedAt} />],
        ["waits until", decision ? null : <Time iso={expiresAt} />],
        [
          "decision",
          decision ? (
            <>
              <Status
                word={decision.verdict}
                tone={decision.verdict === "approve" ? "good" : "warn"}
              />{" "}
              by {visibleText(decision.by)}, <Time iso={decision.at} />
            </>
          ) : null,
        ],
        ["note", decision?.note ? visibleText(decision.note) : null],
        [
          "refused decisions",
          refused.length === 0 ? null : (
            <ul class="approvals-refused">
              {refused.map(({ verdict, by, at, code }) => (
                <li key={`${at} ${by}`} class="warn">
                  <Time iso={at} /> {`${verdict} by ${visibleText(by)}: ${code}`}
                </li>
              ))}
            </ul>
          ),
        ],
      ]}
    />
  );
}

/** A call that waits for a person, or did: what, why, its arguments, and the decision. */
export function Detail({ id, decided }: { id: string; decided(): void }) {
  const resource = useResource<{ approval: ApprovalView }>(`/approvals/${encodeURIComponent(id)}`, {
    live: true,
  });
  return (
    <Loaded resource={resource}>
      {({ approval }) => (
        <>
          <header class="approvals-head">
            <h2>Approval {approval.code}</h2>
            <Status
              word={approval.state === "open" ? "waiting" : approval.state}
              tone={approval.decision ? "quiet" : "warn"}
            />
            <Id id={approval.id} />
          </header>
          <Sentence approval={approval} />
          <p>
            <Prose text={approval.why} />
          </p>
          {approval.decision ? null : (
            <Decide
              approval={approval}
              decided={() => {
                resource.reload();
                decided();
              }}
            />
          )}
          <Section title="Arguments, as the model wrote them">
            <JsonTree value={approval.input} open={4} />
          </Section>
          <About approval={approval} />
        </>
      )}
    </Loaded>
  );
}
