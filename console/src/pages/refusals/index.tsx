import { useResource } from "../../resource.ts";
import { Time } from "../../ui/basic.tsx";
import { Loaded, Empty } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";

interface Refusal {
  at: string;
  path: string;
  code: string;
}

export function Page() {
  const refusals = useResource<{ refusals: Refusal[] }>("/refusals", { live: true });
  return (
    <>
      <header class="page-head">
        <h1>Refused</h1>
      </header>
      <Loaded resource={refusals}>
        {({ refusals: rows }) =>
          rows.length === 0 ? (
            <Empty>No request was refused.</Empty>
          ) : (
            <Table
              label="Refused requests"
              rows={rows}
              rowId={(row) => `${row.at}${row.path}`}
              columns={[
                { head: "When", cell: (row) => <Time iso={row.at} /> },
                { head: "Path", cell: (row) => row.path, grow: true },
              ]}
            />
          )
        }
      </Loaded>
    </>
  );
}
