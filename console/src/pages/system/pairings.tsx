import type { PairingView } from "../../../../src/operate/people/pairings.ts";
import { ask } from "../../api.ts";
import { useAction, useResource } from "../../resource.ts";
import { Button, Section, Status, Time } from "../../ui/basic.tsx";
import { confirmed } from "../../ui/dialog.tsx";
import { visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { toast, toastError } from "../../ui/toast.tsx";

const TONES = { waiting: "warn", approved: "good", denied: "quiet" } as const;

const named = ({ channel, person }: PairingView): string => visibleText(`${channel}:${person}`);

/** The buttons of one person: a decision, or the end of one. */
function Actions({ pairing, changed }: { pairing: PairingView; changed(): void }) {
  const path = `/pairings/${encodeURIComponent(pairing.id)}`;
  const [decide, busy] = useAction(async (verdict: "approve" | "deny") => {
    await ask(path, { method: "POST", body: { verdict } });
    toast(
      verdict === "approve"
        ? `${named(pairing)} may write to the agent.`
        : `${named(pairing)} is not answered.`,
    );
    changed();
  }, toastError);
  const [revoke, revoking] = useAction(async () => {
    const what = "The person is a stranger again, and gets a code with the next message.";
    if (!(await confirmed(`Revoke the decision about ${named(pairing)}?`, what, "Revoke", true)))
      return;
    await ask(path, { method: "DELETE" });
    toast("The decision is revoked.");
    changed();
  }, toastError);
  if (pairing.state !== "waiting")
    return (
      <Button kind="danger" busy={revoking} onClick={revoke}>
        Revoke
      </Button>
    );
  return (
    <div class="actions">
      <Button kind="primary" busy={busy} onClick={() => decide("approve")}>
        Approve
      </Button>
      <Button kind="danger" busy={busy} onClick={() => decide("deny")}>
        Deny
      </Button>
    </div>
  );
}

/** The people who have asked to write to the agent, and those about whom was decided. */
export function Pairings() {
  const pairings = useResource<{ pairings: PairingView[] }>("/pairings", { live: true });
  return (
    <Section title="People">
      <Loaded resource={pairings}>
        {({ pairings: rows }) =>
          rows.length === 0 ? (
            <Empty command="rouse people">
              No stranger has asked to write to the agent. A channel with dmPolicy “pairing” lists
              them here.
            </Empty>
          ) : (
            <Table
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
          )
        }
      </Loaded>
    </Section>
  );
}
