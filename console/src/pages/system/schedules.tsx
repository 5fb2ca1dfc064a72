import { ask } from "../../api.ts";
import { useResource } from "../../resource.ts";
import { Button, Section, Status, Time } from "../../ui/basic.tsx";
import { confirmed } from "../../ui/dialog.tsx";
import { number, visibleText } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { toast, toastError } from "../../ui/toast.tsx";

interface ScheduleRow {
  name: string;
  agentId: string;
  id: string;
  source: "config" | "agent" | "heartbeat";
  when: string;
  timezone: string | null;
  text: string | null;
  paused: boolean;
  next: readonly string[];
  last: { firedAt: string; status: string | null } | null;
  skipped: number;
}

const toPath = ({ agentId, id }: ScheduleRow): string =>
  `/schedules/${encodeURIComponent(agentId)}/${encodeURIComponent(id)}`;

async function act(
  row: ScheduleRow,
  verb: "run" | "pause" | "resume",
  done: string,
  after: () => void,
): Promise<void> {
  await ask(`${toPath(row)}/${verb}`, { method: "POST" });
  toast(`${row.name} ${done}.`);
  after();
}

async function remove(row: ScheduleRow, after: () => void): Promise<void> {
  if (
    !(await confirmed(
      `Delete ${row.name}?`,
      "It does not fire any more. The agent may propose another one.",
      "Delete",
      true,
    ))
  )
    return;
  await ask(toPath(row), { method: "DELETE" });
  toast(`${row.name} is deleted.`);
  after();
}

function Actions({ row, reload }: { row: ScheduleRow; reload(): void }) {
  const start = (work: Promise<void>): void => void work.catch(toastError);
  return (
    <>
      <Button onClick={() => start(act(row, "run", "was started", reload))}>Run now</Button>{" "}
      {row.paused ? (
        <Button onClick={() => start(act(row, "resume", "goes on", reload))}>Resume</Button>
      ) : (
        <Button onClick={() => start(act(row, "pause", "is paused", reload))}>Pause</Button>
      )}{" "}
      {row.source === "agent" ? (
        <Button kind="danger" onClick={() => start(remove(row, reload))}>
          Delete
        </Button>
      ) : null}
    </>
  );
}

/** When agents start by themselves: list, run, pause and resume, and delete what an agent has proposed. */
export function Schedules() {
  const schedules = useResource<{ schedules: ScheduleRow[] }>("/schedules", { live: true });
  return (
    <Section title="Schedules">
      <Loaded resource={schedules}>
        {({ schedules: rows }) =>
          rows.length === 0 ? (
            <Empty command="rouse schedules">
              No agent has a schedule, and all heartbeats are off.
            </Empty>
          ) : (
            <Table
              label="List of schedules"
              rows={rows}
              rowId={(row) => row.name}
              columns={[
                { head: "Schedule", cell: (row) => row.name },
                { head: "When", cell: ({ when, timezone }) => `${when} ${timezone ?? ""}` },
                {
                  head: "What",
                  grow: true,
                  cell: (row) => (row.text === null ? "heartbeat" : visibleText(row.text)),
                },
                {
                  head: "Next",
                  cell: (row) => (row.paused ? "paused" : <Time iso={row.next[0] ?? null} />),
                },
                {
                  head: "Last",
                  minor: true,
                  cell: ({ last }) => <Time iso={last?.firedAt ?? null} />,
                },
                {
                  head: "Outcome",
                  minor: true,
                  cell: ({ last }) => (last?.status ? <Status word={last.status} /> : "–"),
                },
                { head: "Skipped", minor: true, cell: (row) => number(row.skipped) },
                { head: "Do", cell: (row) => <Actions row={row} reload={schedules.reload} /> },
              ]}
            />
          )
        }
      </Loaded>
    </Section>
  );
}
