import type { PairingView } from "../../../../src/operate/people/people.ts";
import { ActionButton } from "../../action-button.tsx";
import { ask } from "../../api.ts";
import { useResource } from "../../resource.ts";
import { Section, Status, Time } from "../../ui/basic.tsx";
import { visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";

const TONES = { waiting: "warn", approved: "good", denied: "quiet" } as const;

/** The buttons of one person: a decision, or the end of one. */
function Actions({ pairing, changed }: { pairing: PairingView; changed(): void }) {
  const path = `/pairings/${encodeURIComponent(pairing.id)}`;
  const name = visibleText(`${pairing.channel}:${pairing.person}`);
  const decide = (verdict: "approve" | "deny") => () =>
    ask(path, { method: "POST", body: { verdict } });
  if (pairing.state !== "waiting")
    return (
      <ActionButton
        label="Revoke"
        kind="danger"
        question={[
          `Revoke the decision about ${name}?`,
          "The person is a stranger again, and gets a code with the next message.",
        ]}
        send={() => ask(path, { method: "DELETE" })}
        done="The decision is revoked."
        onDone={changed}
      />
    );
  return (
    <div class="actions">
      <ActionButton
        label="Approve"
        kind="primary"
        send={decide("approve")}
        done={`${name} may write to the agent.`}
        onDone={changed}
      />
      <ActionButton
        label="Deny"
        kind="danger"
        send={decide("deny")}
        done={`${name} is not answered.`}
        onDone={changed}
      />
    </div>
  );
}

/** The people who have asked to write to the agent, and those about whom was decided. */
export function Pairings() {
  const pairings = useResource<{ pairings: PairingView[] }>("/pairings", { live: true });
  return (
    <Section title="People">
      <Loaded resource={pairings}>
        {({ pairings: rows }) => (
          <Table
            empty={
              <Empty command="rouse people">
                No stranger has asked to write to the agent. A channel with dmPolicy “pairing” lists
                them here.
              </Empty>
            }
            label="People"
            rows={rows}
            rowId={({ id }) => id}
            columns={[
              { head: "Channel", cell: ({ channel }) => channel },
              {
                head: "Person",
                cell: ({ person }) => <span class="mono">{visibleText(person)}</span>,
              },
              {
                head: "Name",
                cell: ({ name }) => (name === null ? "–" : visibleText(name)),
                grow: true,
              },
              {
                head: "Code",
                cell: ({ code }) =>
                  code === null ? <span class="quiet">–</span> : <b class="mono">{code}</b>,
              },
              {
                head: "Asked",
                cell: ({ requestedAt }) => <Time iso={requestedAt} />,
                minor: true,
              },
              { head: "State", cell: ({ state }) => <Status word={state} tone={TONES[state]} /> },
              {
                head: "Action",
                cell: (pairing) => <Actions pairing={pairing} changed={pairings.reload} />,
              },
            ]}
          />
        )}
      </Loaded>
    </Section>
  );
}
