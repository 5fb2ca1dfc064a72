import "./style.css";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { listAgents } from "../../../../src/operate/watch/system.ts";
import type { Answer } from "../../api.ts";
import { FilterSelect } from "../../filters.tsx";
import { href, place } from "../../router.ts";
import { useResource } from "../../resource.ts";
import { Button } from "../../ui/basic.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { Empty, Failed } from "../../ui/states.tsx";
import { say, session, startAnew, turns } from "./conversation.ts";
import { TurnView } from "./turn.tsx";

/** The text that was not sent yet survives a reload and a sign-out. */
const DRAFT = "rouse.chat.draft";

function Composer({ agent }: { agent: string }) {
  const [text, setText] = useState(() => localStorage.getItem(DRAFT) ?? "");
  const field = useRef<HTMLTextAreaElement>(null);
  const busy = turns.value.some(({ state }) => state === "running");
  // A layout effect runs before the page is drawn: a visible text is kept, even if the page is loaded again immediately.
  useLayoutEffect(() => localStorage.setItem(DRAFT, text), [text]);
  // With the elements, not after they are painted: the focus does not go away from what was chosen meanwhile.
  useLayoutEffect(() => field.current?.focus(), []);
  const send = (): void => {
    if (text.trim() === "" || busy) return;
    void say(text.trim(), agent);
    setText("");
  };
  return (
    <form
      class="chat-composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <label class="field block">
        <span class="unseen">Message</span>
        <textarea
          ref={field}
          class="input"
          rows={3}
          value={text}
          placeholder="Write to the agent"
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            // Enter that ends the input of a composed character is no sending.
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            send();
          }}
        />
      </label>
      <div class="chat-send">
        <span class="quiet">Enter sends, Shift Enter begins a line.</span>
        <Button kind="primary" submit disabled={text.trim() === "" || busy}>
          Send
        </Button>
      </div>
    </form>
  );
}

/** A conversation with any agent, for trying it out: the operator's own sessions, which no channel and no key reaches. */
export function Page() {
  const agents = useResource<Answer<typeof listAgents>>("/agents");
  const { agent = "" } = place.value.query;
  const log = useRef<HTMLOListElement>(null);
  const shown = turns.value;
  useEffect(() => log.current?.lastElementChild?.scrollIntoView({ block: "end" }), [shown]);
  const list = agents.data?.agents ?? [];
  const standard = list.find((one) => one.standard)?.id ?? "";
  const current = agent === "" ? standard : agent;
  return (
    <>
      <PageHead
        title="Chat"
        filters={
          list.length === 0 ? null : (
            <FilterSelect
              name="agent"
              label="Agent"
              fallback={standard}
              options={list.map(
                ({ id, name, model }) =>
                  [id, `${name === id ? id : `${name} (${id})`} · ${model}`] as const,
              )}
            />
          )
        }
        actions={
          <Button onClick={startAnew} disabled={shown.length === 0}>
            New conversation
          </Button>
        }
      />
      {agents.error && !agents.data ? <Failed error={agents.error} retry={agents.reload} /> : null}
      <ol class="chat-log" ref={log} aria-live="polite" aria-label="Conversation">
        {shown.map((turn) => (
          <TurnView key={turn.id} turn={turn} />
        ))}
      </ol>
      {shown.length === 0 ? (
        <Empty command={`rouse chat${agent === "" ? "" : ` ${agent}`}`}>
          Write to an agent to see what it answers and which steps it takes. What you write here is
          kept in <a href={href("sessions")}>a session</a> that no channel and no API key reaches.
          The same on the command line:
        </Empty>
      ) : (
        <p class="chat-session quiet">
          Continue on the command line:{" "}
          <code>
            rouse chat {current} --session {session.value}
          </code>
        </p>
      )}
      <Composer agent={agent} />
    </>
  );
}
