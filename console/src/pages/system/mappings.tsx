import { useState } from "preact/hooks";
import type { listMappings } from "../../../../src/operate/edits/mapping-view.ts";
import type { listSecretCandidates } from "../../../../src/operate/watch/system.ts";
import { ActionButton } from "../../action-button.tsx";
import { ask, type Answer } from "../../api.ts";
import { toReadOnly } from "../../console-mode.ts";
import { useResource } from "../../resource.ts";
import { href } from "../../router.ts";
import { Button, Section, Status, Time } from "../../ui/basic.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { bytes } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { withToken } from "../../ui/token.tsx";

const accept = (path: string, id: number): Promise<{ file: string }> =>
  ask("/hooks/secrets", { method: "POST", body: { path, id } });

/** Secrets that requests brought to a path that has none yet: anyone may have sent them. */
function Secrets({
  path,
  readOnly,
  onClose,
}: {
  path: string;
  readOnly: string | undefined;
  onClose(): void;
}) {
  const secrets = useResource<Answer<typeof listSecretCandidates>>(
    `/hooks/secrets?path=${encodeURIComponent(path)}`,
  );
  return (
    <Dialog title={`Secrets that came to ${path}`} onClose={onClose}>
      <div class="body">
        <Loaded resource={secrets} lines={2}>
          {({ candidates }) =>
            candidates.length === 0 ? (
              <Empty command={`rouse hooks ${path} --accept`}>
                No request has brought a secret to accept since the gateway started.
              </Empty>
            ) : (
              <>
                <p>
                  Anyone may have sent these. Accept the one that came when you set the hook up at
                  the sender.
                </p>
                {readOnly ? <p class="warn">{readOnly}</p> : null}
                <Table
                  label="List of secrets to accept"
                  rows={candidates}
                  rowId={(row) => String(row.id)}
                  columns={[
                    { head: "From", cell: (row) => row.address, grow: true },
                    { head: "When", cell: (row) => <Time iso={row.at} /> },
                    {
                      head: "Accept",
                      cell: (row) => (
                        <ActionButton
                          label={`Accept secret ${row.id}`}
                          disabled={readOnly !== undefined}
                          send={() => withToken(() => accept(path, row.id))}
                          done={({ file }) => `The secret is kept in ${file}.`}
                          onDone={onClose}
                        />
                      ),
                    },
                  ]}
                />
              </>
            )
          }
        </Loaded>
      </div>
    </Dialog>
  );
}

function Paths({ base, paths, enabled, console }: Answer<typeof listMappings>) {
  const [asked, setAsked] = useState<string | null>(null);
  return (
    <Section title="Paths">
      {enabled ? null : <p class="warn">● hooks.enabled is false: hooks are answered 404.</p>}
      <Table
        empty={
          <Empty>
            No path is configured besides {base}/wake and {base}/agent.
          </Empty>
        }
        label="List of paths"
        rows={paths}
        rowId={(row) => row.path}
        columns={[
          { head: "Path", cell: (row) => `${base}/${row.path}`, grow: true },
          { head: "Methods", cell: (row) => row.methods.join(", ") },
          { head: "Authenticated by", cell: (row) => row.auth },
          { head: "Addresses", minor: true, cell: (row) => row.allowIps?.join(", ") ?? "any" },
          {
            head: "Largest body",
            minor: true,
            numeric: true,
            cell: (row) => bytes(row.maxBodyBytes),
          },
          {
            head: "Secret",
            cell: (row) =>
              row.auth === "signature" ? (
                <Button onClick={() => setAsked(row.path)}>Secrets that came</Button>
              ) : (
                "–"
              ),
          },
        ]}
      />
      {asked === null ? null : (
        <Secrets path={asked} readOnly={toReadOnly(console)} onClose={() => setAsked(null)} />
      )}
    </Section>
  );
}

/** The mappings with links to the workbench, and how callers of each path authenticate. */
export function Mappings() {
  const mappings = useResource<Answer<typeof listMappings>>("/mappings");
  return (
    <Loaded resource={mappings}>
      {(answer) => (
        <>
          <Section title="Mappings" actions={<a href={href("mappings")}>Workbench</a>}>
            <Table
              empty={
                <Empty command="rouse hooks">
                  No mapping is configured: only /wake and /agent take hooks.
                </Empty>
              }
              label="List of mappings"
              rows={answer.mappings}
              rowId={(row) => row.at + row.id}
              columns={[
                { head: "Id", cell: (row) => <a href={href("mappings", row.id)}>{row.id}</a> },
                {
                  head: "State",
                  cell: (row) => (
                    <Status
                      word={row.enabled ? "enabled" : "disabled"}
                      tone={row.enabled ? "good" : "quiet"}
                    />
                  ),
                },
                { head: "Action", cell: (row) => row.action },
                { head: "Paths", grow: true, cell: (row) => row.paths.join(", ") },
                { head: "From", cell: (row) => row.origin },
              ]}
            />
          </Section>
          <Paths {...answer} />
        </>
      )}
    </Loaded>
  );
}
