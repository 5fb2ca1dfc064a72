import { ask } from "../../api.ts";
import { useAction, useResource } from "../../resource.ts";
import { Button, Section, Time } from "../../ui/basic.tsx";
import { plural, visibleText } from "../../ui/format.ts";
import { JsonTree } from "../../ui/json-tree.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { toast, toastError } from "../../ui/toast.tsx";
import type { GatewayStatus } from "../overview/types.ts";

interface Version {
  id: string;
  at: string;
  what: string;
  file: string;
  by: string | null;
  from: string | null;
}

function Problems({ problems }: { problems: GatewayStatus["reloadProblems"] }) {
  if (problems.length === 0) return <p class="good">✓ The config in use is the one on disk.</p>;
  return (
    <>
      <p class="bad">
        ✗ The config on disk has {plural(problems.length, "problem")}; the one before it is in use.
      </p>
      <ul>
        {problems.map(({ path, message }) => (
          <li key={`${path}${message}`}>
            <code>{path}</code>: {visibleText(message)}
          </li>
        ))}
      </ul>
    </>
  );
}

function Changes() {
  const changes = useResource<{ versions: Version[] }>("/changes");
  return (
    <Section title="Changes made here">
      <Loaded resource={changes} lines={2}>
        {({ versions }) =>
          versions.length === 0 ? (
            <Empty>No mapping was changed through the gateway.</Empty>
          ) : (
            <Table
              label="List of changes"
              rows={versions}
              rowId={(row) => row.id}
              columns={[
                { head: "When", cell: (row) => <Time iso={row.at} /> },
                { head: "What", grow: true, lead: true, cell: (row) => visibleText(row.what) },
                { head: "By", cell: (row) => row.by ?? "–" },
                {
                  head: "From version",
                  cell: (row) => <span class="mono">{row.from?.slice(0, 10) ?? "–"}</span>,
                },
                { head: "File", minor: true, cell: (row) => row.file },
              ]}
            />
          )
        }
      </Loaded>
    </Section>
  );
}

/** The config in use with its secrets masked, its problems, and a way to load it again. */
export function Config() {
  const status = useResource<{ status: GatewayStatus }>("/status", { live: true });
  const config = useResource<{ config: unknown }>("/config");
  const [reload, busy] = useAction(
    async () => {
      const { hash } = await ask<{ hash: string }>("/reload", { method: "POST", body: {} });
      toast(`The config ${hash.slice(0, 12)} is in use.`);
      config.reload();
      status.reload();
    },
    (error) => {
      toastError(error);
      status.reload();
    },
  );
  return (
    <>
      <Section
        title="Config in use"
        actions={
          <Button onClick={reload} busy={busy}>
            Load it again
          </Button>
        }
      >
        <Loaded resource={status} lines={1}>
          {({ status: now }) => (
            <>
              <p class="quiet">{now.configFile ?? "No file: the defaults"}</p>
              <Problems problems={now.reloadProblems} />
            </>
          )}
        </Loaded>
        <Loaded resource={config}>{({ config: value }) => <JsonTree value={value} />}</Loaded>
      </Section>
      <Changes />
    </>
  );
}
