import type { SessionDetail } from "../../../../src/operate/records/sessions.ts";
import { ask } from "../../api.ts";
import { useAction, useResource } from "../../resource.ts";
import { href } from "../../router.ts";
import { select } from "../../listing.tsx";
import { sessionQuery } from "../../session-name.ts";
import { Button, Facts, OutsideText, Section, Time } from "../../ui/basic.tsx";
import { confirmed } from "../../ui/dialog.tsx";
import { visibleText } from "../../ui/format.ts";
import { Loaded } from "../../ui/states.tsx";
import { toast, toastError } from "../../ui/toast.tsx";
import { Conversation } from "./conversation.tsx";

type Query = Readonly<Record<string, string>>;

/** Deletes the history of a session, or the session itself. */
function Actions({ query, isMain, changed }: { query: Query; isMain: boolean; changed(): void }) {
  const [reset, resetting] = useAction(async () => {
    const text =
      "The agent forgets what was said. The session stays, and its runs stay in the list.";
    if (!(await confirmed("Delete the history of this session?", text, "Delete the history", true)))
      return;
    await ask("/sessions/reset", { method: "POST", body: query });
    toast("The history is deleted.");
    changed();
  }, toastError);
  const [remove, removing] = useAction(async () => {
    const text = "Its history goes with it. A later hook with this key begins a new session.";
    if (!(await confirmed("Delete this session?", text, "Delete the session", true))) return;
    await ask(`/sessions?${new URLSearchParams(query).toString()}`, { method: "DELETE" });
    toast("The session is deleted.");
    changed();
    select("sessions", "");
  }, toastError);
  return (
    <div class="actions">
      <Button busy={resetting} onClick={reset}>
        Delete the history
      </Button>
      {isMain ? null : (
        <Button kind="danger" busy={removing} onClick={remove}>
          Delete the session
        </Button>
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
        ["last used", session.lastUsedAt === null ? null : <Time iso={session.lastUsedAt} />],
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

/** What waits for a heartbeat of the main session. */
const Queued = ({ queued }: Pick<SessionDetail, "queued">) =>
  queued.length === 0 ? null : (
    <Section title="Waiting for a heartbeat">
      {queued.map(({ id, at, source, text, failures }) => (
        <div key={id}>
          <p class="quiet">
            <Time iso={at} /> {visibleText(source)}
            {failures > 0 ? `, failed ${failures} times` : ""}
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
