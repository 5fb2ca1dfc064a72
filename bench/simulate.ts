/**
 * `npm run bench -- --simulate [--hooks 1000,10000] [--seed 1] [--json]`: how the design grows past one PostgreSQL, from
 * `bench/costs.json`: arithmetic first, then a simulation of the same plan. docs/scaling.md says what it shows.
 */
import { readFileSync } from "node:fs";
import {
  ASSUMED,
  doublingSeconds,
  keptBytes,
  remoteShare,
  getLoads,
  planFor,
  price,
  buildScenario,
  type Load,
  type UnitOfWork,
  type Priced,
} from "./simulate/arithmetic.ts";
import { COSTS_FILE, parseCosts, type Known } from "./simulate/costs.ts";
import { simulate, type Outcome, type Scenario } from "./simulate/model.ts";
import type { Times } from "./simulate/engine.ts";

interface Options {
  seed: number;
  rates: number[];
  json?: boolean | undefined;
  /** Another file of costs; tests give one. */
  file?: string;
}

interface Step {
  plan: UnitOfWork;
  loads: Load[];
  scenario: Scenario;
  outcome: Outcome;
}

/** Seconds before, while, and after a partition is away; shorter where there are more hooks to carry through. */
const around = (rate: number): [number, number] => (rate > 20_000 ? [6, 12] : [20, 60]);
/** Beyond this a plan with one database is not simulated: the sums say enough, and its lines only grow. */
const MOST_ON_ONE = 20_000;

const round = (value: number, digits = 2): string =>
  value >= 1000
    ? Math.round(value).toLocaleString("en-US")
    : String(Number(value.toPrecision(Math.max(1, digits))));
const count = (pieces: number): string => pieces.toLocaleString("en-US");
const time = (seconds: number): string =>
  seconds < 1 ? `${round(seconds * 1000)} ms` : `${round(seconds)} s`;
const percent = (share: number): string => `${Math.round(share * 100)} %`;
const both = (times: Times): string =>
  times.count() === 0 ? "none" : `${time(times.quantile(0.5))} / ${time(times.quantile(0.99))}`;
const renderMax = (list: readonly number[]): string => percent(Math.max(...list));

const scaled = ({ value, unit }: Known): string => {
  const shown = unit === "µs" ? value * 1e6 : unit === "MB/s" ? value / 1e6 : value;
  return `${round(shown, 4)} ${unit}`;
};

function costLines(priced: Priced): string[] {
  return Object.values(priced).map((known: Known) => {
    if (known.kind === "missing") return `| ${known.name} | – | MISSING: left out | ${known.how} |`;
    return `| ${known.name} | ${scaled(known)} | ${known.kind === "measured" ? "measured" : "≈ ESTIMATE"} | ${known.how} |`;
  });
}

/** A sign behind every figure that rests on an estimate. */
const sign = (load: Load): string =>
  load.from.some(({ kind }) => kind === "estimate") ? " ≈" : "";

function loadLines(loads: readonly Load[]): string[] {
  return loads.map((load) => {
    if (!load.known) return `| ${load.part} | unknown: a cost is missing | | ${load.remedy} |`;
    return `| ${load.part} | ${round(load.load)}${load.load > 1 ? " BREAKS" : ""}${sign(load)} | ${round(load.breaksAt)}${sign(load)} | ${load.remedy} |`;
  });
}

function outcomeLines({ outcome, scenario }: Step, marked: string): string[] {
  const { failure } = outcome;
  const lines = [
    `| hooks arrived, accepted, under way | ${[outcome.arrived, outcome.accepted, outcome.underWay].map(count).join(", ")} |`,
    `| busy: gateways, fullest database, its log | ${percent(outcome.gatewayBusy)}, ${renderMax(outcome.databaseBusy)}${marked}, ${renderMax(outcome.logBusy)}${marked} |`,
    `| accept, p50 / p99 | ${both(outcome.accept)}${marked} |`,
    `| enqueue to start, p50 / p99 | ${both(outcome.start)}${marked} |`,
    `| the same without the ${outcome.overfullKeys} keys that get more than one turn after the other can do | ${both(outcome.startOfOthers)}${marked} |`,
    `| fullest partition against the mean | ${round(outcome.imbalance)} |`,
    `| runs that still wait at the end | ${count(outcome.runsWaiting)} of ${count(outcome.runsStarted + outcome.runsWaiting)} |`,
  ];
  if (!failure || !scenario.failure) return lines;
  const expected = 1 - (1 - 1 / scenario.partitions) ** 2;
  lines.push(
    `| one partition away for ${scenario.failure.seconds} s: hooks refused meanwhile | ${percent(failure.refused / failure.arrived)} (by its share, its own and those whose event key lies there: ${percent(expected)}) |`,
    `| back to the usual line after | ${failure.recovered === undefined ? `not within ${scenario.seconds - scenario.failure.from - scenario.failure.seconds} s` : time(failure.recovered)} |`,
  );
  return lines;
}

function firstBreak(loads: readonly Load[]): string {
  const unknown = loads.filter(({ known }) => !known).map(({ part }) => part);
  const first = loads.find(({ known }) => known);
  const rest = unknown.length > 0 ? ` Nothing can be said of: ${unknown.join("; ")}.` : "";
  if (!first) return `Nothing can be said.${rest}`;
  const others = loads
    .filter((load) => load !== first && load.known && load.load > 1)
    .map(({ part }) => part);
  const also = others.length > 0 ? ` Broken too: ${others.join("; ")}.` : "";
  return first.load > 1
    ? `Breaks first, from ${round(first.breaksAt)} hooks a second${sign(first)}: ${first.part}. Remedy: ${first.remedy}.${also}${rest}`
    : `Nothing breaks; the first would be, at ${round(first.breaksAt)} hooks a second${sign(first)}: ${first.part}.${rest}`;
}

const mark = (priced: Priced): string => {
  const kinds = new Set(Object.values(priced).map(({ kind }: Known) => kind));
  return kinds.has("missing") ? " (without what is missing)" : kinds.has("estimate") ? " ≈" : "";
};

function stepFor(plan: UnitOfWork, priced: Priced, seed: number): Step {
  const [before, after] = around(plan.rate);
  const failure =
    plan.partitions > 1
      ? { partition: 0, from: before, seconds: ASSUMED.failureSeconds }
      : undefined;
  const scenario = buildScenario(
    plan,
    priced,
    seed,
    failure ? before + failure.seconds + after : 60,
    failure,
  );
  return { plan, loads: getLoads(plan, priced), scenario, outcome: simulate(scenario) };
}

function heading({ rate, partitions, acceptors, workers, turns }: UnitOfWork): string {
  const databases = partitions === 1 ? "one database" : `${partitions} databases`;
  return `## ${round(rate)} hooks a second on ${databases}\n\nGateways that accept: ${acceptors}; that run: ${workers}. Turns at the same time: ${round(turns)}.\n`;
}

/** Describes a hook's work in other partitions than its own, and the cost of more partitions. */
function acrossLine(plan: UnitOfWork, priced: Priced): string {
  if (priced.kept.kind === "missing" || priced.logSpeed.kind === "missing")
    return "What is kept, and how long resharding takes: unknown, a cost is missing.";
  const kept = `${round(keptBytes(plan, priced) / 1e12)} TB are kept`;
  const moved = `doubling the partitions moves half of them in ${round(doublingSeconds(plan, priced) / 3600)} h at half the speed of every log`;
  const share = percent(remoteShare(plan));
  return `${share} of the hooks reserve their event's key in another partition (a commit and a round trip more). ${kept}; ${moved}.`;
}

function print(plan: UnitOfWork, priced: Priced, step: Step | undefined): void {
  const loads = step?.loads ?? getLoads(plan, priced);
  console.log(`\n${heading(plan)}`);
  console.log(
    `| part | load (1 = all there is) | breaks at hooks/s | remedy |\n|---|---|---|---|\n${loadLines(loads).join("\n")}\n`,
  );
  console.log(`${acrossLine(plan, priced)}\n`);
  if (step)
    console.log(
      `| simulated ${step.scenario.seconds} s, seed ${step.scenario.seed} | |\n|---|---|\n${outcomeLines(step, mark(priced)).join("\n")}\n`,
    );
  else console.log("Not simulated: on one database its lines would only grow.\n");
  console.log(firstBreak(loads));
}

/** Prints costs, assumptions and each step, first on one database and then on as many as it takes. */
export function main({ seed, rates, json, file = COSTS_FILE }: Options): void {
  const priced = price(parseCosts(readFileSync(file, "utf8")));
  if (!json) {
    console.log(`| cost | value | | how |\n|---|---|---|---|\n${costLines(priced).join("\n")}\n`);
    console.log("≈ behind a figure: it rests on an estimate.\n");
    const { bursts, ...assumed } = ASSUMED;
    const pairs = Object.entries(assumed).map(([name, value]) => `${name} ${value}`);
    console.log(
      `Assumed: ${pairs.join(", ")}; bursts of ${bursts.factor} × for ${bursts.seconds} s, ${percent(bursts.share)} of the time.`,
    );
  }
  for (const rate of rates) {
    const fitting = planFor(rate, priced);
    const plans = fitting.partitions === 1 ? [fitting] : [planFor(rate, priced, 1), fitting];
    for (const plan of plans) {
      const step =
        plan.partitions === 1 && rate > MOST_ON_ONE ? undefined : stepFor(plan, priced, seed);
      if (json)
        console.log(
          JSON.stringify({
            plan,
            loads: step?.loads ?? getLoads(plan, priced),
            outcome: step?.outcome,
          }),
        );
      else print(plan, priced, step);
    }
  }
}
