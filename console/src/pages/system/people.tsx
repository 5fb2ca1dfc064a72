import type { AddressView } from "../../../../src/operate/people/people.ts";
import { ActionButton } from "../../action-button.tsx";
import { ask } from "../../api.ts";
import { useResource } from "../../resource.ts";
import { Section, Status, Time } from "../../ui/basic.tsx";
import { visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";

const TONES = { linked: "good", owner: "quiet", unlinked: "quiet" } as const;

function Unlink({ address, changed }: { address: AddressView; changed(): void }) {
  const name = `${address.channel}:${address.person}`;
  return (
    <ActionButton
      label="Unlink"
      kind="danger"
      question={[
        `Unlink ${visibleText(name)}?`,
        "Direct messages there have a conversation of their own again. If one other channel is left, it is unlinked too.",
      ]}
      send={() => ask(`/people/${encodeURIComponent(name)}`, { method: "DELETE" })}
      done={`${visibleText(name)} is unlinked.`}
      onDone={changed}
    />
  );
}

/** The people who have linked several channels, and those whom the config names. */
export function LinkedPeople() {
  const people = useResource<{ addresses: AddressView[] }>("/people", { live: true });
  return (
    <Section title="Linked channels">
      <Loaded resource={people}>
        {({ addresses: rows }) => (
          <Table
            empty={
              <Empty command="rouse people">
                No person has linked two channels with /link, and the config names none in people.
              </Empty>
            }
            label="List of linked channels"
            rows={rows}
            rowId={({ channel, person }) => `${channel}:${person}`}
            columns={[
              {
                head: "Person",
                cell: ({ personId, entry }) => <span class="mono">{personId ?? entry ?? "–"}</span>,
              },
              { head: "Channel", cell: ({ channel }) => channel },
              {
                head: "Id there",
                cell: ({ person }) => <span class="mono">{visibleText(person)}</span>,
                grow: true,
              },
              { head: "State", cell: ({ state }) => <Status word={state} tone={TONES[state]} /> },
              {
                head: "Linked",
                cell: ({ linkedAt }) => (linkedAt === null ? "–" : <Time iso={linkedAt} />),
                minor: true,
              },
              {
                head: "Action",
                cell: (one) =>
                  one.personId === null ? null : <Unlink address={one} changed={people.reload} />,
              },
            ]}
          />
        )}
      </Loaded>
    </Section>
  );
}
