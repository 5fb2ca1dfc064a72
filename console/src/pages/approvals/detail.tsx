import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ApprovalView } from "../../../../src/operate/people/approvals.ts";
import type { RunDetail } from "../../../../src/operate/records/views.ts";
import { useResource } from "../../resource.ts";
import { Button, Facts, Id, OutsideText, Section, Status, Time } from "../../ui/basic.tsx";
import { Prose } from "../../ui/prose.tsx";
import { number, visibleText } from "../../ui/format.ts";
import { JsonTree } from "../../ui/json-tree.tsx";
import { Loaded } from "../../ui/states.tsx";
import { toLink } from "../../ui/with-ids.tsx";
import { Decide, type DecideProps } from "./decide.tsx";

/** Says what the agent wants to do. */
function Sentence({ approval: { agentId, tool, reason } }: { approval: ApprovalView }) {
  const isUnknown = reason === "outcome_unknown";
  return (
    <p class="approvals-sentence">
      The agent <b>{agentId}</b> {isUnknown ? "called" : "wants to call"} <b class="mono">{tool}</b>
      {isUnknown ? ", and no answer came." : "."}
    </p>
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

/** The person who asked, and the words or the event. */
function LedTo({ approval: { runId, askedBy, eventId } }: { approval: ApprovalView }) {
  const run = useResource<{ run: RunDetail }>(`/runs/${encodeURIComponent(runId)}`);
  return (
    <Section title="What led to it">
      <Facts
        pairs={[
          ["asked by", askedBy && visibleText(askedBy)],
          ["event", toLink(eventId)],
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
        ["run", toLink(runId)],
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
export function Detail({ id, isNext, reload, goOn }: DecideProps & { id: string }) {
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
