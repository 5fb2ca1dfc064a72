import { useState } from "preact/hooks";
import type { createKey, KeyView, listKeys } from "../../../../src/operate/people/keys.ts";
import { ActionButton } from "../../action-button.tsx";
import { ask, type Answer } from "../../api.ts";
import { useAction, useResource } from "../../resource.ts";
import { Button, copy, Section, Time } from "../../ui/basic.tsx";
import { Dialog, FormDialog } from "../../ui/dialog.tsx";
import { Checkboxes, TextField } from "../../ui/fields.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";

const SCOPES = ["chat", "agents:read", "knowledge:read", "knowledge:write"] as const;
const words = (text: string): string[] => text.split(/[,\s]+/).filter((word) => word !== "");

/** The secret of a new key: the gateway keeps only its hash. */
function Secret({ id, secret, onClose }: { id: string; secret: string; onClose(): void }) {
  return (
    <Dialog title={`The key ${id}`} onClose={onClose}>
      <div class="body">
        <p>This is the only time it is shown: only its hash is kept.</p>
        <pre class="command">{secret}</pre>
      </div>
      <footer>
        <Button onClick={() => void copy(secret, "the key")}>Copy</Button>
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
      </footer>
    </Dialog>
  );
}

function NewKey({
  onClose,
  onMade,
}: {
  onClose(): void;
  onMade(made: { id: string; secret: string }): void;
}) {
  const [id, setId] = useState("");
  const [tenant, setTenant] = useState("");
  const [agents, setAgents] = useState("");
  const [scopes, setScopes] = useState<string[]>(["chat", "agents:read"]);
  const [error, setError] = useState<string | null>(null);
  const [create, busy] = useAction(
    async () => {
      const body = {
        id: id.trim(),
        scopes,
        ...(tenant.trim() === "" ? {} : { tenant: tenant.trim() }),
        ...(agents.trim() === "" ? {} : { agents: words(agents) }),
      };
      const { key, secret } = await ask<Answer<typeof createKey>>("/keys", {
        method: "POST",
        body,
      });
      onMade({ id: key.id, secret });
    },
    ({ message }) => setError(message),
  );
  return (
    <FormDialog
      title="New key"
      action="Create the key"
      busy={busy}
      disabled={scopes.length === 0}
      onSubmit={create}
      onClose={onClose}
    >
      <TextField
        label="Id"
        value={id}
        onInput={setId}
        required
        autoFocus
        error={error}
        hint="Small letters, digits and dashes, such as web"
      />
      <TextField
        label="Tenant"
        value={tenant}
        onInput={setTenant}
        hint="Whose documents its turns see. Empty: the id of the key"
      />
      <TextField
        label="Agents"
        value={agents}
        onInput={setAgents}
        hint="Ids with commas between. Empty: all agents"
      />
      <Checkboxes legend="What it may do" names={SCOPES} ticked={scopes} onChange={setScopes} />
    </FormDialog>
  );
}

const Revoke = ({ id, revoked }: { id: string; revoked(): void }) => (
  <ActionButton
    label="Revoke"
    kind="danger"
    question={[`Revoke ${id}?`, "Requests with this key are rejected from now on."]}
    send={() => ask(`/keys/${encodeURIComponent(id)}`, { method: "DELETE" })}
    done={`${id} is revoked.`}
    onDone={revoked}
  />
);

function KeyTable({ keys, reload }: { keys: readonly KeyView[]; reload(): void }) {
  return (
    <Table
      label="List of keys"
      rows={keys}
      rowId={(row) => row.id}
      empty={
        <Empty command="rouse keys create web">
          No key has been made: only the gateway token may use /v1.
        </Empty>
      }
      columns={[
        { head: "Key", cell: (row) => row.id },
        { head: "Tenant", cell: (row) => row.tenant },
        { head: "Agents", cell: (row) => row.agents?.join(", ") ?? "all" },
        { head: "May", grow: true, cell: (row) => row.scopes.join(", ") },
        {
          head: "Rate",
          minor: true,
          cell: ({ rateLimit }) =>
            rateLimit ? `${rateLimit.requests} in ${rateLimit.perSeconds} s` : "–",
        },
        { head: "Made", minor: true, cell: (row) => <Time iso={row.createdAt} /> },
        { head: "From", cell: (row) => row.source },
        {
          head: "Revoke",
          cell: (row) => (row.source === "config" ? null : <Revoke id={row.id} revoked={reload} />),
        },
      ]}
    />
  );
}

/** Keys of the platform API: list, create, revoke. */
export function ApiKeys() {
  const keys = useResource<Answer<typeof listKeys>>("/keys");
  const [isOpen, setOpen] = useState(false);
  const [made, setMade] = useState<{ id: string; secret: string } | null>(null);
  const take = (created: { id: string; secret: string }): void => {
    setOpen(false);
    setMade(created);
    keys.reload();
  };
  return (
    <Section
      title="Keys of the platform API"
      actions={
        <Button kind="primary" onClick={() => setOpen(true)}>
          New key
        </Button>
      }
    >
      <Loaded resource={keys}>
        {({ keys: rows }) => <KeyTable keys={rows} reload={keys.reload} />}
      </Loaded>
      {isOpen ? <NewKey onClose={() => setOpen(false)} onMade={take} /> : null}
      {made ? <Secret {...made} onClose={() => setMade(null)} /> : null}
    </Section>
  );
}
