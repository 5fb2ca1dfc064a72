import type { listSchedules, ScheduleView } from "../../../../src/operate/people/schedules.ts";
import { ActionButton } from "../../action-button.tsx";
import { ask, type Answer } from "../../api.ts";
import { useResource } from "../../resource.ts";
import { Section, Status, Time } from "../../ui/basic.tsx";
import { number, visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";

const toPath = ({ agentId, id }: ScheduleView): string =>
  `/schedules/${encodeURIComponent(agentId)}/${encodeURIComponent(id)}`;

function Actions({ row, reload }: { row: ScheduleView; reload(): void }) {
  return (
    <>
      <ActionButton
        label="Run now"
        send={() => ask(`${toPath(row)}/run`, { method: "POST" })}
        done={`${row.name} was started.`}
        onDone={reload}
      />{" "}
      {row.source === "agent" ? (
        <ActionButton
          label="Delete"
          kind="danger"
          question={[
            `Delete ${row.name}?`,
            "It does not fire any more. The agent may propose another one.",
          ]}
          send={() => ask(toPath(row), { method: "DELETE" })}
          done={`${row.name} is deleted.`}
          onDone={reload}
        />
      ) : null}
    </>
  );
}

/** When agents start by themselves: list, run, and delete what an agent has proposed. */
export function Schedules() {
  const schedules = useResource<Answer<typeof listSchedules>>("/schedules", { live: true });
  return (
    <Section title="Schedules">
      <Loaded resource={schedules}>
        {({ schedules: rows }) => (
          <Table
            label="List of schedules"
            rows={rows}
            rowId={(row) => row.name}
            empty={
              <Empty command="rouse schedules">
                No agent has a schedule, and all heartbeats are off.
              </Empty>
            }
            columns={[
              { head: "Schedule", cell: (row) => row.name },
              { head: "When", cell: ({ when, timezone }) => `${when} ${timezone ?? ""}` },
              {
                head: "What",
                grow: true,
                cell: (row) => (row.text === null ? "heartbeat" : visibleText(row.text)),
              },
              { head: "Next", cell: (row) => <Time iso={row.next[0] ?? null} /> },
              { head: "Last", minor: true, cell: ({ last }) => <Time iso={last?.firedAt} /> },
              {
                head: "Outcome",
                minor: true,
                cell: ({ last }) => (last?.status ? <Status word={last.status} /> : "–"),
              },
              { head: "Skipped", minor: true, cell: (row) => number(row.skipped) },
              { head: "Do", cell: (row) => <Actions row={row} reload={schedules.reload} /> },
            ]}
          />
        )}
      </Loaded>
    </Section>
  );
}
