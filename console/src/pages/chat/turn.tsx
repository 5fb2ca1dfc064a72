import type { ComponentChildren } from "preact";
import type { NamedCitation } from "../../../../src/turns/knowledge.ts";
import { href } from "../../router.ts";
import { useAction, useResource } from "../../resource.ts";
import { Button, Id, Status } from "../../ui/basic.tsx";
import { duration, number, visibleText, elapsed, plural } from "../../ui/format.ts";
import { toastError } from "../../ui/toast.tsx";
import { stop, type Turn } from "./conversation.ts";
import { useEffect, useState } from "preact/hooks";
import type { StepView, ToolCallView } from "../../../../src/operate/records/views.ts";
import { JsonTree } from "../../ui/json-tree.tsx";
import { Loaded } from "../../ui/states.tsx";

const WORK_MS = 1000;

function Call({ call }: { call: ToolCallView }) {
  const texts = call.output?.parts.flatMap((part) => ("text" in part ? [part.text] : [])) ?? [];
  return (
    <details class="chat-call">
      <summary>
        <code>{visibleText(call.tool)}</code> <Status word={call.state} />
        {call.startedAt ? (
          <span class="quiet"> {elapsed(call.startedAt, call.endedAt)}</span>
        ) : null}
      </summary>
      <h4>Arguments</h4>
      <JsonTree value={call.input} />
      {call.approvals.map(({ id, why }) => (
        <p key={id} class="quiet">
          Asked for an approval: {visibleText(why)}
        </p>
      ))}
      {texts.length > 0 ? (
        <>
          <h4>{call.output?.isError ? "Error" : "Result"}</h4>
          <pre class="code">{visibleText(texts.join("\n"))}</pre>
        </>
      ) : null}
    </details>
  );
}

function Step({ step }: { step: StepView }) {
  const { inputTokens, outputTokens } = step.usage;
  return (
    <li>
      <p>
        <b>Step {step.index + 1}</b> <span class="mono">{visibleText(step.model)}</span>{" "}
        <span class="quiet">
          {elapsed(step.startedAt, step.endedAt)}
          {inputTokens === undefined ? "" : `, ${plural(inputTokens, "token")} in`}
          {outputTokens === undefined ? "" : `, ${number(outputTokens)} out`}
        </span>
      </p>
      {step.failedAttempts.map(({ at, model, error }) => (
        <p key={at} class="bad">
          {visibleText(model)}: {visibleText(error.message)}
        </p>
      ))}
      {step.thinking ? (
        <details>
          <summary>Thinking</summary>
          <pre class="code">{visibleText(step.thinking)}</pre>
        </details>
      ) : null}
      {step.calls.map((call) => (
        <Call key={call.id} call={call} />
      ))}
    </li>
  );
}

/** The steps of a turn: the calls of the model and of tools, while they happen. */
function Steps({ runId, running }: { runId: string; running: boolean }) {
  // The id of a run is known a moment before the run is kept.
  const [asks, setAsks] = useState(!running);
  useEffect(() => {
    const timer = setTimeout(() => setAsks(true), running ? WORK_MS : 0);
    return () => clearTimeout(timer);
  }, [running]);
  const steps = useResource<{ steps: StepView[] }>(
    asks ? `/runs/${encodeURIComponent(runId)}/steps` : null,
  );
  const { reload } = steps;
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(reload, WORK_MS);
    return () => {
      clearInterval(timer);
      reload();
    };
  }, [running, reload]);
  return (
    <Loaded resource={steps} lines={1}>
      {({ steps: all }) =>
        all.length === 0 ? (
          <p class="quiet chat-no-steps">
            {running ? "No step has ended yet." : "This run has no steps."}
          </p>
        ) : (
          <details class="chat-steps" open>
            <summary>{plural(all.length, "step")}</summary>
            <ol>
              {all.map((step) => (
                <Step key={step.index} step={step} />
              ))}
            </ol>
          </details>
        )
      }
    </Loaded>
  );
}

const nameOf = ({ filename, page }: NamedCitation): string =>
  visibleText(`${filename}${page === null ? "" : `, page ${page}`}`);

/** The reply with the numbers by which it names passages as links to these. */
function withLinks({ reply, citations, marks }: Turn): ComponentChildren[] {
  const pieces = marks.flatMap(({ number: n, start, end }, index): ComponentChildren[] => {
    const before = visibleText(reply.slice(marks[index - 1]?.end ?? 0, start));
    const citation = citations.find((one) => one.number === n);
    if (!citation) return [before, reply.slice(start, end)];
    return [
      before,
      <a class="chat-citation" href={href("documents", citation.chunkId)} title={nameOf(citation)}>
        {reply.slice(start, end)}
      </a>,
    ];
  });
  return [...pieces, visibleText(reply.slice(marks.at(-1)?.end ?? 0))];
}

/** The passages that the model was given, those first that the reply names. */
function Sources({ turn: { citations, marks } }: { turn: Turn }) {
  if (citations.length === 0) return null;
  const all = citations.map((citation) => ({
    citation,
    number: citation.number,
    named: marks.some((mark) => mark.number === citation.number),
  }));
  const named = all.filter((source) => source.named);
  const rest = all.filter((source) => !source.named);
  const list = (sources: typeof all) => (
    <ul class="chat-sources">
      {sources.map(({ citation, number: n }) => (
        <li key={citation.chunkId}>
          <details>
            <summary>
              <span class="mono">[{n}]</span> {nameOf(citation)}{" "}
              <span class="quiet">
                {citation.score === null
                  ? "found in an earlier turn"
                  : `score ${citation.score.toPrecision(3)}`}
              </span>
            </summary>
            <p>{visibleText(citation.text)}</p>
            <a href={href("documents", citation.chunkId)}>Open the passage in its document</a>
          </details>
        </li>
      ))}
    </ul>
  );
  return (
    <>
      {named.length > 0 ? list(named) : null}
      {rest.length > 0 ? (
        <details class="chat-rest">
          <summary>{plural(rest.length, "more passage")} that the model was given</summary>
          {list(rest)}
        </details>
      ) : null}
    </>
  );
}

function Foot({ turn }: { turn: Turn }) {
  const { usage } = turn;
  return (
    <p class="chat-foot">
      <Status word={turn.state} />
      {turn.runId ? <Id id={turn.runId} to={href("runs", turn.runId)} /> : null}
      {turn.endedAt === undefined ? null : (
        <span class="quiet">{duration(turn.endedAt - turn.startedAt)}</span>
      )}
      {usage?.inputTokens === undefined ? null : (
        <span class="quiet">
          {plural(usage.inputTokens, "token")} in, {number(usage.outputTokens ?? 0)} out
        </span>
      )}
    </p>
  );
}

/** One turn of the conversation. */
export function TurnView({ turn }: { turn: Turn }) {
  const running = turn.state === "running";
  const [halt, halting] = useAction(() => stop(turn), toastError);
  return (
    <li class="chat-turn">
      <p class="chat-message">
        <span class="unseen">You: </span>
        {visibleText(turn.message)}
      </p>
      <div class="chat-reply">
        <header>
          <b>{turn.agent || "default agent"}</b>
          {running && turn.runId ? (
            <Button onClick={halt} busy={halting}>
              Stop
            </Button>
          ) : null}
        </header>
        {turn.runId ? <Steps runId={turn.runId} running={running} /> : null}
        {turn.reply === "" ? (
          running ? (
            <p class="quiet">…</p>
          ) : null
        ) : (
          <p class="chat-text">{withLinks(turn)}</p>
        )}
        {turn.error ? (
          <p class="bad" role="alert">
            {turn.error}
          </p>
        ) : null}
        <Sources turn={turn} />
        <Foot turn={turn} />
      </div>
    </li>
  );
}
