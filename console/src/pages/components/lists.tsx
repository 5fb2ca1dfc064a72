import { useState } from "preact/hooks";
import { Section, Status, Time } from "../../ui/basic.tsx";
import { number } from "../../ui/format.ts";
import { Split } from "../../ui/split.tsx";
import { Empty, Failed, Skeleton } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";

interface Row {
  id: string;
  outcome: string;
  text: string;
  tokens: number;
  at: string;
}

const OUTCOMES = ["accepted", "unmatched", "failed", "skipped", "duplicate"];
const rows = (count: number): Row[] =>
  Array.from({ length: count }, (_, index) => ({
    id: `row_${index}`,
    outcome: OUTCOMES[index % OUTCOMES.length] ?? "",
    text: `Pull request ${index} was opened by a sender with a rather long name`,
    tokens: index * 137,
    at: new Date(Date.now() - index * 61_000).toISOString(),
  }));

const FEW = rows(5);
const MANY = rows(5000);

function Example({ theme, all }: { theme: string; all: readonly Row[] }) {
  const [selected, setSelected] = useState(all === FEW ? "row_1" : "");
  const label = `${all.length} rows, ${theme}`;
  const table = (
    <Table
      label={label}
      rows={all}
      rowId={({ id }) => id}
      selected={selected}
      onSelect={setSelected}
      columns={[
        { head: "Outcome", cell: ({ outcome }) => <Status word={outcome} /> },
        { head: "What", cell: ({ text }) => text, grow: true },
        { head: "Tokens", cell: ({ tokens }) => number(tokens), numeric: true, minor: true },
        { head: "When", cell: ({ at }) => <Time iso={at} /> },
      ]}
    />
  );
  return (
    <div class="components-frame">
      <Split
        name={`components-${all.length}`}
        list={table}
        detail={selected === "" ? null : <p>The detail of {selected}.</p>}
        onClose={() => setSelected("")}
      />
    </div>
  );
}

/** Lists with the detail of a row, and what stands in their place. */
export function Lists({ theme }: { theme: string }) {
  return (
    <>
      <Section title="A list with a detail" label={`A list with a detail, ${theme}`}>
        <Example theme={theme} all={FEW} />
      </Section>
      <Section title="A list of 5,000 rows" label={`A list of 5,000 rows, ${theme}`}>
        <Example theme={theme} all={MANY} />
      </Section>
      <Section title="In place of a list" label={`In place of a list, ${theme}`}>
        <Empty command="curl -sS http://127.0.0.1:7420/hooks/agent">
          No event has come in yet. Send the first one:
        </Empty>
        <Skeleton lines={4} />
        <Failed
          error={{ code: "store_unavailable", message: "The store does not answer." }}
          retry={() => undefined}
        />
        <Failed
          error={{ code: "not_found", message: "There is no such event." }}
          retry={() => undefined}
        />
      </Section>
    </>
  );
}
