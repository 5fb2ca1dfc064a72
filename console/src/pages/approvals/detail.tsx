import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ApprovalView } from "../../../../src/operate/people/approvals.ts";
import type { RunDetail } from "../../../../src/operate/records/views.ts";
import { ask } from "../../api.ts";
import { recountApprovals } from "../../open-approvals.ts";
import { useAction, useResource } from "../../resource.ts";
import { href } from "../../router.ts";
import { Button, Facts, Id, OutsideText, Section, Status, Time } from "../../ui/basic.tsx";
import { Prose } from "../../ui/prose.tsx";
import { confirmed, FormDialog } from "../../ui/dialog.tsx";
import { TextField } from "../../ui/fields.tsx";
import { number, visibleText } from "../../ui/format.ts";
import { JsonTree } from "../../ui/json-tree.tsx";
import { useKeys } from "../../ui/keys.ts";
import { Loaded } from "../../ui/states.tsx";
import { toast, toastError } from "../../ui/toast.tsx";
import { AlwaysDialog } from "./always.tsx";

type Verdict = ApprovalView["verdicts"][number];

/** What each decision is called, and the key that makes it. */
const VERDICTS: Record<Verdict, { label: string; key: string; done: string }> = {
  approve: { label: "Approve", key: "a", done: "Approved" },
  deny: { label: "Deny", key: "d", done: "Denied" },
  repeat: { label: "Repeat the call", key: "r", done: "The call is repeated" },
  done: { label: "Treat as done", key: "t", done: "Treated as done" },
  give_up: { label: "Give up", key: "x", done: "The run is ended" },
};

/** What is asked before a decision that cannot be taken back and that may do harm. */
const QUESTIONS: Partial<Record<Verdict, { title: string; text: string }>> = {
  repeat: { title: "Make this call again?", text: "It may have been carried out already." },
  give_up: { title: "End this run?", text: "It ends as failed. What it has done stays done." },
};

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

/** What was decided here, by approval and question: an answer that was under way meanwhile may still show the call as open. */
const sent = new Set<string>();

interface DetailProps {
  /** Whether it is shown because the call before it was decided about: then it takes the focus. */
  isNext: boolean;
  /** Reads again what was decided. */
  reload(): void;
  /** Goes on to the next call. */
  goOn(): void;
}

/** How long the buttons and keys of the next call rest: the second press of a key or the mouse was meant for the call before. */
const REST_MS = 700;

/** The buttons that decide, each with its key. */
function Decide({ approval, isNext, reload, goOn }: DetailProps & { approval: ApprovalView }) {
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

/** Longer words are cut at first. */
const SHOWN_CHARS = 600;

function cutParts(parts: RunDetail["input"], limit: number): RunDetail["input"] {
  let left = limit;
  return parts.flatMap((part) => {
    const text = part.text.slice(0, Math.max(0, left));
    left -= part.text.length;
    return text === "" ? [] : [{ ...part, text }];
  });
}

/** The words that the agent was given, those from outside marked. */
function Words({ run: { input, instructions } }: { run: RunDetail }) {
  const [isWhole, setWhole] = useState(false);
  const parts =
    instructions === null ? input : [{ text: `${instructions}\n`, outside: false }, ...input];
  const length = parts.reduce((sum, { text }) => sum + text.length, 0);
  if (length === 0) return null;
  return (
    <div class="approvals-words">
      {parts.some(({ outside }) => outside) ? (
        <p class="quiet">The underlined words came from outside, and may say anything.</p>
      ) : null}
      <OutsideText parts={isWhole ? parts : cutParts(parts, SHOWN_CHARS)} />
      {isWhole || length <= SHOWN_CHARS ? null : (
        <Button onClick={() => setWhole(true)}>Show all {number(length)} characters</Button>
      )}
    </div>
  );
}

/** Who asked, and by which words or event. */
function LedTo({ approval: { runId, askedBy, eventId } }: { approval: ApprovalView }) {
  const run = useResource<{ run: RunDetail }>(`/runs/${encodeURIComponent(runId)}`);
  return (
    <Section title="What led to it">
      <Facts
        pairs={[
          ["asked by", askedBy === null ? null : visibleText(askedBy)],
          ["event", eventId === null ? null : <Id id={eventId} to={href("events", eventId)} />],
        ]}
      />
      <Loaded resource={run} lines={3}>
        {({ run: shown }) => <Words run={shown} />}
      </Loaded>
    </Section>
  );
}

function About({ approval }: { approval: ApprovalView }) {
  const { runId, askedAt, expiresAt, decision, refused } = approval;
  return (
    <Facts
      pairs={[
        ["run", <Id id={runId} to={href("runs", runId)} />],
        ["agent", approval.agentId],
        ["asked", <Time iso={askedAt} />],
        ["expires", decision ? null : <Time iso={expiresAt} />],
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

function Head({ approval, isNext }: { approval: ApprovalView; isNext: boolean }) {
  const title = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => {
    if (isNext) title.current?.focus();
  }, []);
  return (
    <header class="approvals-head">
      <h2 ref={title} tabIndex={-1}>
        Approval {approval.code}
      </h2>
      <Status
        word={approval.state === "open" ? "waiting" : approval.state}
        tone={approval.decision ? "quiet" : "warn"}
      />
      <Id id={approval.id} />
    </header>
  );
}

/** A call that waits for a person, or did: what, why, its arguments, what led to it, and the decision. */
export function Detail({ id, isNext, reload, goOn }: DetailProps & { id: string }) {
  const resource = useResource<{ approval: ApprovalView }>(`/approvals/${encodeURIComponent(id)}`, {
    live: true,
  });
  return (
    <Loaded resource={resource}>
      {({ approval }) => (
        <>
          <Head approval={approval} isNext={isNext} />
          <Sentence approval={approval} />
          <p>
            <Prose text={approval.why} />
          </p>
          {approval.decision ? null : (
            <Decide
              approval={approval}
              isNext={isNext}
              reload={() => {
                resource.reload();
                reload();
              }}
              goOn={goOn}
            />
          )}
          <Section title="Arguments, as the model wrote them">
            <JsonTree value={approval.input} open={4} />
          </Section>
          <LedTo approval={approval} />
          <About approval={approval} />
        </>
      )}
    </Loaded>
  );
}
