import type { AddressView } from "../../../../src/operate/people/people.ts";
import { ask } from "../../api.ts";
import { useAction, useResource } from "../../resource.ts";
import { Button, Section, Status, Time } from "../../ui/basic.tsx";
import { confirmed } from "../../ui/dialog.tsx";
import { visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { toast, toastError } from "../../ui/toast.tsx";

const TONES = { linked: "good", owner: "quiet", unlinked: "quiet" } as const;

function Unlink({
  address: { channel, person },
  changed,
}: {
  address: AddressView;
  changed(): void;
}) {
  const name = visibleText(`${channel}:${person}`);
  const [unlink, busy] = useAction(async () => {
    const what =
      "Direct messages there have a conversation of their own again. If one other channel is left, it is unlinked too.";
    if (!(await confirmed(`Unlink ${name}?`, what, "Unlink", true))) return;
    await ask(`/people/${encodeURIComponent(`${channel}:${person}`)}`, { method: "DELETE" });
    toast(`${name} is unlinked.`);
    changed();
  }, toastError);
  return (
    <Button kind="danger" busy={busy} onClick={unlink}>
      Unlink
    </Button>
  );
}

/** The people who have linked several channels, and those whom the config names. */
export function LinkedPeople() {
  const people = useResource<{ addresses: AddressView[] }>("/people", { live: true });
  return (
    <Section title="Linked channels">
      <Loaded resource={people}>
        {({ addresses: rows }) =>
          rows.length === 0 ? (
            <Empty command="rouse people">
              No person has linked two channels with /link, and the config names none in people.
            </Empty>
          ) : (
            <Table
              label="List of linked channels"
              rows={rows}
              rowId={({ channel, person }) => `${channel}:${person}`}
              columns={[
                {
                  head: "Person",
                  cell: ({ personId, entry }) => (
                    <span class="mono">{personId ?? entry ?? "–"}</span>
                  ),
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
          )
        }
      </Loaded>
    </Section>
  );
}
