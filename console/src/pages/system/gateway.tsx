import { useState } from "preact/hooks";
import type { backupStore, describeGateways } from "../../../../src/operate/watch/system.ts";
import type { BudgetView } from "../../../../src/queue/types.ts";
import { ask, type Answer } from "../../api.ts";
import { useReadOnly } from "../../console-mode.ts";
import { useAction, useResource } from "../../resource.ts";
import { Button, Facts, Section, Status, Time } from "../../ui/basic.tsx";
import { Prose } from "../../ui/prose.tsx";
import { TextField } from "../../ui/fields.tsx";
import { bytes, number, plural } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { toast, toastError } from "../../ui/toast.tsx";
import { withToken } from "../../ui/token.tsx";
import type { GatewayStatus } from "../overview/types.ts";
import { Away } from "./away.tsx";

const used = (value: number, limit: number | undefined): string =>
  limit === undefined ? "–" : `${number(value)} of ${number(limit)}`;

function Limits() {
  const limits = useResource<{ limits: BudgetView[] }>("/limits", { live: true });
  return (
    <Section title="Limits">
      <Loaded resource={limits} lines={2}>
        {({ limits: rows }) => (
          <Table
            empty={
              <Empty command="hooks: { limits: { runsPerHour: 100 } }">
                No hook has a limit: a sender can start as many runs as it likes.
              </Empty>
            }
            label="List of limits"
            rows={rows}
            rowId={(row) => row.scope}
            columns={[
              { head: "Of", cell: (row) => row.scope },
              {
                head: "Runs this hour",
                numeric: true,
                cell: (row) => used(row.usage.startedLastHour, row.limits.runsPerHour),
              },
              {
                head: "At the same time",
                numeric: true,
                cell: (row) => used(row.usage.running, row.limits.concurrent),
              },
              {
                head: "Tokens in a day",
                numeric: true,
                cell: (row) => used(row.usage.tokensLastDay, row.limits.tokensPerDay),
              },
              {
                head: "USD in a day",
                numeric: true,
                cell: ({ limits: { budget }, usage }) =>
                  budget ? `${usage.costLastDay.toFixed(2)} of ${budget.perDay}` : "–",
              },
              { head: "Waiting", numeric: true, cell: (row) => number(row.usage.waiting) },
            ]}
          />
        )}
      </Loaded>
    </Section>
  );
}

function Gateways() {
  const gateways = useResource<Answer<typeof describeGateways>>("/gateways");
  return (
    <Section title="Gateways of this store">
      <Loaded resource={gateways} lines={2}>
        {({ gateways: rows, leases }) => (
          <>
            <Table
              label="List of gateways"
              rows={rows}
              rowId={(row) => row.id}
              columns={[
                {
                  head: "Host",
                  cell: (row) => `${row.host ?? "unknown"}${row.self ? " (this one)" : ""}`,
                },
                { head: "Process", numeric: true, cell: (row) => row.pid ?? "–" },
                {
                  head: "State",
                  cell: (row) => <Status word={row.alive ? "connected" : "lost"} />,
                },
                { head: "Version", cell: (row) => row.version ?? "–" },
                {
                  head: "Config",
                  minor: true,
                  cell: (row) => <code>{row.snapshot?.slice(0, 12) ?? "–"}</code>,
                },
                { head: "Workers", cell: (row) => (row.workers ? "yes" : "no") },
                { head: "Last seen", cell: (row) => <Time iso={row.lastSeen} /> },
              ]}
            />
            {leases.length > 0 ? (
              <p class="quiet">
                Done by one gateway at a time:{" "}
                {leases.map(({ name, host }) => `${name} (${host ?? "no gateway"})`).join(", ")}
              </p>
            ) : null}
          </>
        )}
      </Loaded>
    </Section>
  );
}

function Store({ status }: { status: GatewayStatus }) {
  const [file, setFile] = useState("");
  const readOnly = useReadOnly();
  const [start, busy] = useAction(async (target: string) => {
    const made = await withToken(() =>
      ask<Answer<typeof backupStore>>("/store/backup", { method: "POST", body: { file: target } }),
    );
    toast(`Backed up ${bytes(made.bytes)} to ${made.file} in ${made.seconds.toFixed(1)} s.`);
    setFile("");
  }, toastError);
  const kinds = Map.groupBy(Object.entries(status.counts), ([name]) => name.split(".")[0] ?? name);
  const rows = [...kinds].map(
    ([kind, counts]) =>
      [
        kind,
        counts
          .filter(([, count]) => count > 0)
          .map(
            ([name, count]) =>
              `${number(count)} ${name.slice(kind.length + 1).replaceAll("_", " ")}`,
          )
          .join(", ") || "none",
      ] as const,
  );
  return (
    <Section title="Store">
      <Facts pairs={rows} />
      <form
        class="system-form"
        onSubmit={(event) => {
          event.preventDefault();
          start(file.trim());
        }}
      >
        <TextField
          label="Back up to"
          value={file}
          onInput={setFile}
          required
          hint={
            <Prose text="An absolute path on the gateway's machine, of a file that is not there yet. `rouse backup --store rouse-backup.db` does the same." />
          }
        />
        {readOnly ? <p class="quiet">{readOnly}</p> : null}
        <Button
          submit
          busy={busy}
          disabled={readOnly !== undefined}
          {...(readOnly ? { title: readOnly } : {})}
        >
          Back up
        </Button>
      </form>
    </Section>
  );
}

/** The process, what it cannot reach, limits, the other gateways, and the store. */
export function Gateway() {
  const status = useResource<{ status: GatewayStatus }>("/status", { live: true });
  return (
    <Loaded resource={status}>
      {({ status: now }) => (
        <>
          <Section title="This gateway">
            <Facts
              pairs={[
                ["Version", now.version],
                ["Since", <Time key="since" iso={now.startedAt} />],
                ["Config", now.configFile ?? "none: the defaults"],
                ["State folder", now.stateDir],
                ["Address", now.url],
                ["Process", now.pid],
                ["Workers", now.workers ? "yes" : "no: hooks are recorded, and no run starts"],
                ["Turns waiting", plural(now.waiting.turn.count, "turn")],
                [
                  "Deliveries waiting",
                  plural(now.waiting.delivery.count, "delivery", "deliveries"),
                ],
              ]}
            />
          </Section>
          <Away status={now} />
          <Limits />
          <Gateways />
          <Store status={now} />
        </>
      )}
    </Loaded>
  );
}
