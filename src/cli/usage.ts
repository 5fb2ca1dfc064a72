import { Option, type Command } from "commander";
import { USAGE_KEYS, type UsageKey, type UsageSum } from "../store/types.ts";
import { connected, read } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printJson, printTable } from "./print.ts";
import { localTime } from "./text.ts";

interface UsageOptions extends CommonOptions {
  by: UsageKey;
  since: string;
}

/** `$1.23`, `unknown`, or `$1.23 + unknown` if the price of a part is unknown. */
export function renderCost(costUsd: number | null | undefined, unpricedRuns = 0): string {
  if (costUsd === null || costUsd === undefined) return unpricedRuns > 0 ? "unknown" : "–";
  const digits = costUsd === 0 || costUsd >= 1 ? 2 : 4;
  return `$${costUsd.toFixed(digits)}${unpricedRuns > 0 ? " + unknown" : ""}`;
}

const toCells = (row: UsageSum): string[] => [
  row.key,
  String(row.runs),
  String(row.inputTokens),
  String(row.cachedInputTokens),
  String(row.outputTokens),
  renderCost(row.costUsd, row.unpricedRuns),
];

async function showUsage({ by, since, ...options }: UsageOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) =>
    read(api.usage.$get({ query: { by, since } })),
  );
  if (options.json) return printJson(io, answer);
  const { rows, total } = answer;
  if (rows.length === 0) return io.out(`no run has ended since ${localTime(answer.since)}\n`);
  printTable(
    io,
    [by.toUpperCase(), "RUNS", "INPUT", "CACHED", "OUTPUT", "COST"],
    [...rows, total].map(toCells),
  );
  if (total.unpricedRuns > 0)
    io.out(`\n${total.unpricedRuns} runs used a model whose price is unknown: set models.prices\n`);
}

export function register(program: Command, io: CliIo): void {
  reading(
    program
      .command("usage")
      .description("tokens and costs of runs")
      .addOption(
        new Option("--by <what>", "add up by mapping, agent, model or day")
          .choices(USAGE_KEYS)
          .default("day"),
      )
      .option(
        "--since <time>",
        'of newer runs: an age such as "2d", or a date such as "2026-01-31"',
        "30d",
      ),
    "rouse usage --by model --since 7d",
  ).action((options: UsageOptions) => showUsage(options, io));
}
