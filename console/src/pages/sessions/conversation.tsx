import { useState } from "preact/hooks";
import type { SessionDetail } from "../../../../src/operate/records/sessions.ts";
import { ask } from "../../api.ts";
import { useAction } from "../../resource.ts";
import { href } from "../../router.ts";
import { Button, Id, OutsideText, Time } from "../../ui/basic.tsx";
import { plural, visibleText } from "../../ui/format.ts";
import { JsonTree } from "../../ui/json-tree.tsx";
import { toastError } from "../../ui/toast.tsx";

type Turn = SessionDetail["turns"][number];

/** What a message of a model or a tool may hold, as it is kept. */
interface Part {
  type?: string;
  text?: string;
  toolName?: string;
  input?: unknown;
  output?: unknown;
}

interface Message {
  role?: string;
  content?: string | Part[];
}

const isPart = (value: unknown): value is Part => typeof value === "object" && value !== null;

function PartView({ part }: { part: Part }) {
  switch (part.type) {
    case "text":
      return <pre class="sessions-said">{visibleText(part.text ?? "")}</pre>;
    case "reasoning":
      return (
        <details>
          <summary class="quiet">Thinking</summary>
          <pre class="code">{visibleText(part.text ?? "")}</pre>
        </details>
      );
    case "tool-call":
    case "tool-result":
      return (
        <details>
          <summary>
            {part.type === "tool-call" ? "Called" : "Result of"}{" "}
            <span class="mono">{part.toolName}</span>
          </summary>
          <JsonTree value={part.type === "tool-call" ? part.input : part.output} />
        </details>
      );
    default:
      return <JsonTree value={part} open={1} />;
  }
}

/** A message by its role. What has a form of its own is shown as it is kept. */
function MessageView({ message }: { message: unknown }) {
  const { role, content } = message as Message;
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
  return (
    <div class={`sessions-message ${role === "assistant" ? "own" : ""}`}>
      <span class="quiet">{role === "assistant" ? "agent" : (role ?? "message")}</span>
      {parts.filter(isPart).map((part, index) => (
        <PartView key={index} part={part} />
      ))}
    </div>
  );
}

/** A summary that takes the place of older turns. */
function Checkpoint({
  turn,
  checkpoint,
}: {
  turn: Turn;
  checkpoint: NonNullable<Turn["checkpoint"]>;
}) {
  const left = checkpoint.left === 0 ? "" : `, ${checkpoint.left} of them in no summary`;
  return (
    <li class="sessions-checkpoint">
      <p class="quiet">
        <Time iso={turn.at} /> checkpoint: replaces {plural(checkpoint.turns, "turn")}
        {left}
        {checkpoint.model === null ? "" : `, by ${checkpoint.model}`}
      </p>
      {turn.input.length > 0 ? <OutsideText parts={turn.input.slice(1)} /> : null}
    </li>
  );
}

function TurnView({ turn }: { turn: Turn }) {
  const { at, runId, input, messages, checkpoint } = turn;
  if (checkpoint) return <Checkpoint turn={turn} checkpoint={checkpoint} />;
  return (
    <li class="sessions-turn">
      <p class="quiet">
        <Time iso={at} /> <Id id={runId} to={href("runs", runId)} />{" "}
        <a href={href("runs", runId)}>steps</a>
      </p>
      <div class="sessions-message">
        <span class="quiet">{turn.hook ? "hook" : "input"}</span>
        <OutsideText parts={input} />
      </div>
      {messages.map((message, index) => (
        <MessageView key={index} message={message} />
      ))}
    </li>
  );
}

/** The turns of a session, oldest first; older ones are loaded above them. */
export function Conversation({
  query,
  detail,
}: {
  query: Readonly<Record<string, string>>;
  detail: SessionDetail;
}) {
  const [older, setOlder] = useState<{ turns: Turn[]; next: string | null } | null>(null);
  const next = older ? older.next : detail.next;
  const first = detail.turns[0]?.seq ?? Infinity;
  const before = (older?.turns ?? []).filter(({ seq }) => seq < first);
  const [load, busy] = useAction(async () => {
    const answer = await ask<SessionDetail>(
      `/sessions/show?${new URLSearchParams({ ...query, before: next ?? "" }).toString()}`,
    );
    setOlder({ turns: [...answer.turns, ...before], next: answer.next });
  }, toastError);
  const turns = [...before, ...detail.turns];
  if (turns.length === 0)
    return <p class="quiet">It has no history: it was reset, or has taken no turn yet.</p>;
  return (
    <>
      {next === null ? null : (
        <Button busy={busy} onClick={load}>
          Older turns
        </Button>
      )}
      <ol class="sessions-turns">
        {turns.map((turn) => (
          <TurnView key={turn.seq} turn={turn} />
        ))}
      </ol>
    </>
  );
}
