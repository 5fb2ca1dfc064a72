import { Section, Status, Time } from "../../ui/basic.tsx";
import { number, visibleText } from "../../ui/format.ts";
import { Empty } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import type { GatewayStatus } from "../overview/types.ts";

const toIso = (ms: number | undefined): string | null =>
  ms === undefined ? null : new Date(ms).toISOString();

function Breakers({ breakers }: Pick<GatewayStatus, "breakers">) {
  return (
    <Section title="Breakers">
      <Table
        empty={<Empty>No model and no channel is away.</Empty>}
        label="List of breakers"
        rows={breakers}
        rowId={(row) => row.of}
        columns={[
          { head: "Model or channel", cell: (row) => row.of },
          { head: "State", cell: (row) => <Status word={row.state} /> },
          { head: "Away since", cell: (row) => <Time iso={row.since} /> },
          { head: "Next test", cell: (row) => <Time iso={row.nextTest} /> },
          { head: "Waiting", numeric: true, cell: (row) => number(row.waiting) },
          {
            head: "Calls at the same time",
            numeric: true,
            cell: (row) => `${row.running}${row.limit === null ? "" : ` of ${row.limit}`}`,
          },
        ]}
      />
    </Section>
  );
}

function McpServers({ mcpServers }: Pick<GatewayStatus, "mcpServers">) {
  return (
    <Section title="MCP servers">
      <Table
        empty={
          <Empty command='mcp: { servers: { docs: { url: "https://docs.example.com/mcp" } } }'>
            The config names no MCP server.
          </Empty>
        }
        label="List of MCP servers"
        rows={mcpServers}
        rowId={(row) => row.name}
        columns={[
          { head: "Name", cell: (row) => row.name },
          { head: "State", cell: (row) => <Status word={row.state} /> },
          { head: "Tools", numeric: true, cell: (row) => number(row.tools) },
          { head: "Connected since", cell: (row) => <Time iso={toIso(row.since)} /> },
          { head: "Next try", cell: (row) => <Time iso={toIso(row.nextTryAt)} /> },
          { head: "Last problem", grow: true, cell: (row) => visibleText(row.error ?? "–") },
        ]}
      />
    </Section>
  );
}

function Services({ services }: Pick<GatewayStatus, "services">) {
  return (
    <Section title="Services">
      <Table
        empty={<Empty>No plugin has a service, or this gateway has no workers.</Empty>}
        label="List of services"
        rows={services}
        rowId={(row) => row.id}
        columns={[
          { head: "Plugin", cell: (row) => row.id },
          { head: "State", cell: (row) => <Status word={row.ok ? "ok" : "failing"} /> },
          { head: "Since", cell: (row) => <Time iso={toIso(row.since)} /> },
          { head: "Reports", grow: true, cell: (row) => visibleText(row.message) },
        ]}
      />
    </Section>
  );
}

/** The parts that the gateway depends on: breakers, MCP servers, and services of plugins. */
export function Away({ status }: { status: GatewayStatus }) {
  return (
    <>
      <Breakers breakers={status.breakers} />
      <McpServers mcpServers={status.mcpServers} />
      <Services services={status.services} />
    </>
  );
}
