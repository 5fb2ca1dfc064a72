import { useResource } from "../../resource.ts";
import { Section } from "../../ui/basic.tsx";
import { Spark } from "../../ui/chart.tsx";
import { number, shortNumber } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import type { UsageAnswer } from "./types.ts";

/** `$1.23`; `unknown` if no price is known, `+ unknown` if the price of a part is not. */
export function cost(costUsd: number | null, unpricedRuns: number): string {
  if (costUsd === null) return unpricedRuns > 0 ? "unknown" : "–";
  return `$${costUsd.toFixed(costUsd === 0 || costUsd >= 1 ? 2 : 4)}${unpricedRuns > 0 ? " + unknown" : ""}`;
}

/** Tokens and cost of each day of the last two weeks. */
export function Usage() {
  const usage = useResource<UsageAnswer>("/usage?by=day&since=14d");
  return (
    <Section title="Tokens and cost a day">
      <Loaded resource={usage}>
        {({ rows, total }) =>
          rows.length === 0 ? (
            <Empty command="rouse usage --by model">No run has ended in the last 14 days.</Empty>
          ) : (
            <>
              <p>
                <Spark
                  values={rows.toReversed().map((row) => row.inputTokens + row.outputTokens)}
                  label="Tokens a day over the last 14 days"
                />{" "}
                <b>{cost(total.costUsd, total.unpricedRuns)}</b> for {shortNumber(total.inputTokens + total.outputTokens)} tokens in{" "}
                {number(total.runs)} runs
              </p>
              <Table
                label="Days"
                rows={rows}
                rowId={(row) => row.key}
                columns={[
                  { head: "Day (UTC)", cell: (row) => row.key },
                  { head: "Runs", numeric: true, cell: (row) => number(row.runs) },
                  { head: "Input", numeric: true, cell: (row) => shortNumber(row.inputTokens) },
                  { head: "Cached", numeric: true, minor: true, cell: (row) => shortNumber(row.cachedInputTokens) },
                  { head: "Output", numeric: true, cell: (row) => shortNumber(row.outputTokens) },
                  { head: "Cost", numeric: true, cell: (row) => cost(row.costUsd, row.unpricedRuns) },
                ]}
              />
            </>
          )
        }
      </Loaded>
    </Section>
  );
}
