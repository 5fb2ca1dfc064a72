import type { ComponentChildren } from "preact";
import type { NamedCitation } from "../../../../src/turns/knowledge.ts";
import { href } from "../../router.ts";
import { useAction } from "../../resource.ts";
import { Button, Id, Status } from "../../ui/basic.tsx";
import { duration, number, visibleText } from "../../ui/format.ts";
import { toastError } from "../../ui/toast.tsx";
import { stop, type Turn } from "./conversation.ts";
import { Steps } from "./steps.tsx";

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
          <summary>{rest.length} more passages that the model was given</summary>
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
          {number(usage.inputTokens)} tokens in, {number(usage.outputTokens ?? 0)} out
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
