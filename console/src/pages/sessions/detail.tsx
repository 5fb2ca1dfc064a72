import type { SessionDetail } from "../../../../src/operate/records/sessions.ts";
import { ActionButton } from "../../action-button.tsx";
import { ask } from "../../api.ts";
import { useAction, useResource } from "../../resource.ts";
import { href } from "../../router.ts";
import { select } from "../../listing.tsx";
import { sessionQuery } from "../../session-name.ts";
import { Button, Facts, OutsideText, Section, Time, Id } from "../../ui/basic.tsx";
import { visibleText, plural } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import { toastError } from "../../ui/toast.tsx";
import { useState } from "preact/hooks";
import { JsonTree } from "../../ui/json-tree.tsx";

type Turn = SessionDetail["turns"][number];

/** A part of a message of a model or a tool, as it is kept. */
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
function Conversation({
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

type Query = Readonly<Record<string, string>>;

/** Deletes the history of a session, or the session itself. */
function Actions({ query, isMain, changed }: { query: Query; isMain: boolean; changed(): void }) {
  return (
    <div class="actions">
      <ActionButton
        label="Delete the history"
        kind="danger"
        question={[
          "Delete the history of this session?",
          "The agent forgets what was said. The session stays, and its runs stay in the list.",
        ]}
        send={() => ask("/sessions/reset", { method: "POST", body: query })}
        done="The history is deleted."
        onDone={changed}
      />
      {isMain ? null : (
        <ActionButton
          label="Delete the session"
          kind="danger"
          question={[
            "Delete this session?",
            "Its history goes with it. A later hook with this key begins a new session.",
          ]}
          send={() =>
            ask(`/sessions?${new URLSearchParams(query).toString()}`, { method: "DELETE" })
          }
          done="The session is deleted."
          onDone={() => {
            changed();
            select("sessions", "");
          }}
        />
      )}
    </div>
  );
}

function About({ session, lastRoutes }: Pick<SessionDetail, "session" | "lastRoutes">) {
  return (
    <Facts
      pairs={[
        ["agent", session.agentId],
        ["origin", session.origin],
        ["path", session.path],
        ["credential", session.credential],
        ["turns", session.turns],
        ["last used", session.lastUsedAt && <Time iso={session.lastUsedAt} />],
        ["runs", <a href={href("runs", "", { session: session.key })}>runs of this session</a>],
        [
          "last routes",
          lastRoutes.length === 0
            ? null
            : lastRoutes.map(({ channel, to, at }) => (
                <div key={`${channel} ${to}`}>
                  {channel}: {visibleText(to)}, <Time iso={at} />
                </div>
              )),
        ],
      ]}
    />
  );
}

/** The events that wait for a heartbeat of the main session. */
const Queued = ({ queued }: Pick<SessionDetail, "queued">) =>
  queued.length === 0 ? null : (
    <Section title="Waiting for a heartbeat">
      {queued.map(({ id, at, source, text, failures }) => (
        <div key={id}>
          <p class="quiet">
            <Time iso={at} /> {visibleText(source)}
            {failures > 0 ? `, failed ${plural(failures, "time")}` : ""}
          </p>
          <OutsideText parts={text} />
        </div>
      ))}
    </Section>
  );

/** A session as a conversation. */
export function Detail({ name, changed }: { name: string; changed(): void }) {
  const query = sessionQuery(name);
  const resource = useResource<SessionDetail>(
    `/sessions/show?${new URLSearchParams(query).toString()}`,
    { live: true },
  );
  return (
    <Loaded resource={resource}>
      {(detail) => (
        <>
          <header class="sessions-head">
            <h2>{visibleText(detail.session.key)}</h2>
            <Actions
              query={query}
              isMain={detail.session.origin === "main"}
              changed={() => {
                resource.reload();
                changed();
              }}
            />
          </header>
          <About session={detail.session} lastRoutes={detail.lastRoutes} />
          <Queued queued={detail.queued} />
          <Section title="History">
            <Conversation query={query} detail={detail} />
          </Section>
        </>
      )}
    </Loaded>
  );
}
