import { useResource } from "../../resource.ts";
import { href } from "../../router.ts";
import { Section } from "../../ui/basic.tsx";
import { Spark } from "../../ui/chart.tsx";
import { number, plural, shortNumber } from "../../ui/format.ts";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table, type Column } from "../../ui/table.tsx";
import { Figure } from "./figure.tsx";
import type { UsageAnswer, UsageSum } from "./types.ts";

/** `$1.23`; `unknown` if no price is known, `+ unknown` if the price of a part is not. */
export function cost(costUsd: number | null, unpricedRuns: number): string {
  if (costUsd === null) return unpricedRuns > 0 ? "unknown" : "–";
  return `$${costUsd.toFixed(costUsd === 0 || costUsd >= 1 ? 2 : 4)}${unpricedRuns > 0 ? " + unknown" : ""}`;
}

const DAYS = 14;
const DAY_MS = 86_400_000;

/** The runs that ended on a day: what they used is what is shown of it. */
const dayHref = ({ key }: UsageSum): string =>
  href("runs", "", {
    endedSince: key,
    endedUntil: new Date(Date.parse(key) + DAY_MS).toISOString().slice(0, 10),
  });

const figure = (head: string, text: (row: UsageSum) => string): Column<UsageSum> => ({
  head,
  numeric: true,
  cell: (row) => <Figure to={dayHref(row)}>{text(row)}</Figure>,
});

/** Adding up two weeks of runs takes the store longer than what the other parts ask for. */
const REFRESH_MS = 15_000;

/** Tokens and cost of each day of the last two weeks. */
export function Usage() {
  const usage = useResource<UsageAnswer>(`/usage?by=day&since=${DAYS}d`, { live: REFRESH_MS });
  return (
    <Section title="Tokens and cost a day">
      <Loaded resource={usage}>
        {({ rows, total }) =>
          rows.length === 0 ? (
            <Empty command="rouse runs --usage --by model">
              No run has ended in the last {DAYS} days.
            </Empty>
          ) : (
            <>
              <p>
                <a href={href("runs", "", { since: `${DAYS}d`, kind: "all" })}>
                  <Spark
                    values={rows.toReversed().map((row) => row.inputTokens + row.outputTokens)}
                    label={`Tokens a day over the last ${DAYS} days`}
                  />{" "}
                  <b>{cost(total.costUsd, total.unpricedRuns)}</b> for{" "}
                  {plural(total.inputTokens + total.outputTokens, "token", "tokens", shortNumber)}{" "}
                  in {plural(total.runs, "run")}
                </a>
              </p>
              <Table
                label="Days"
                rows={rows}
                rowId={(row) => row.key}
                columns={[
                  { head: "Day (UTC)", cell: (row) => <a href={dayHref(row)}>{row.key}</a> },
                  figure("Runs", (row) => number(row.runs)),
                  figure("Input", (row) => shortNumber(row.inputTokens)),
                  { ...figure("Cached", (row) => shortNumber(row.cachedInputTokens)), minor: true },
                  figure("Output", (row) => shortNumber(row.outputTokens)),
                  figure("Cost", (row) => cost(row.costUsd, row.unpricedRuns)),
                ]}
              />
            </>
          )
        }
      </Loaded>
    </Section>
  );
}
