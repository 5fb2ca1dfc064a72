import type { Snapshot } from "../../../../src/intake/types.ts";
import type { listAgents } from "../../../../src/operate/watch/system.ts";
import type { Answer } from "../../api.ts";
import { useResource } from "../../resource.ts";
import { href } from "../../router.ts";
import { Section, Status } from "../../ui/basic.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";

/** The agents of the config, and the plugins. */
export function Agents() {
  const agents = useResource<Answer<typeof listAgents>>("/agents");
  const plugins = useResource<Pick<Snapshot, "plugins">>("/plugins");
  return (
    <>
      <Section title="Agents" actions={<a href={href("chat")}>Chat with an agent</a>}>
        <Loaded resource={agents}>
          {({ agents: rows }) => (
            <Table
              label="List of agents"
              rows={rows}
              rowId={(row) => row.id}
              columns={[
                { head: "Id", cell: (row) => (row.standard ? `${row.id} (default)` : row.id) },
                { head: "Name", cell: (row) => row.name },
                { head: "Model", cell: (row) => row.model },
                { head: "Thinking", minor: true, cell: (row) => row.thinking ?? "–" },
                {
                  head: "Tools",
                  grow: true,
                  cell: (row) => (
                    <span title={row.tools.join(", ")}>{row.tools.join(", ") || "–"}</span>
                  ),
                },
              ]}
            />
          )}
        </Loaded>
      </Section>
      <Section title="Plugins">
        <Loaded resource={plugins}>
          {({ plugins: rows }) => (
            <Table
              empty={<Empty command="rouse plugins">No plugin is loaded.</Empty>}
              label="List of plugins"
              rows={rows}
              rowId={(row) => row.id}
              columns={[
                { head: "Id", cell: (row) => row.id },
                { head: "Kind", cell: (row) => (row.channel ? "channel" : "plugin") },
                {
                  head: "Configured",
                  cell: (row) => (
                    <Status
                      word={row.configured ? "yes" : "no"}
                      tone={row.configured ? "good" : "quiet"}
                    />
                  ),
                },
                { head: "From", grow: true, cell: (row) => row.origin },
              ]}
            />
          )}
        </Loaded>
      </Section>
    </>
  );
}
