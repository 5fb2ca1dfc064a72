import { resolve } from "node:path";
import type { Snapshot } from "../intake/types.ts";
import type { StoreReader } from "../store/types.ts";
import { DEFAULT_LAST, readEvents, type Selection } from "../workbench/selection.ts";
import { toLines, type WhatIfLine } from "../workbench/what-if-lines.ts";
import {
  whatIf,
  type WhatIfExample,
  type WhatIfGroup,
  type WhatIfReport,
} from "../workbench/what-if.ts";
import { usage } from "./failure.ts";
import { EXIT, type CliIo } from "./io.ts";
import { findTodaysConfig, withFiles, withReader } from "./offline.ts";
import type { CommonOptions } from "./options.ts";
import { groupName, printExample, printReport, printSum } from "./print-what-if.ts";
import { createProgress, type ProgressLine } from "./progress.ts";
import { readSince } from "./since.ts";
import { cell, shellWord } from "./text.ts";

export interface DiffOptions extends CommonOptions {
  since?: string;
  last?: string;
  events?: string[];
  path?: string;
  group?: string;
  expectSame?: boolean;
}

function readSelection({ since, last, events, path }: DiffOptions, io: CliIo): Selection {
  const from = since === undefined ? undefined : readSince(since, io);
  const count = last === undefined ? (from === undefined ? DEFAULT_LAST : Infinity) : Number(last);
  if (!(count >= 1) || (last !== undefined && !/^\d+$/.test(last)))
    throw usage(`--last ${last}: write a number of events`);
  if (events && (since !== undefined || last !== undefined || path !== undefined))
    throw usage("--events names the events: leave --since, --last and --path out");
  return { since: from, last: count, events, path };
}

/** The options that say what is compared, for the commands that the report names. */
function renderCommand({ config, since, last, events, path }: DiffOptions): string {
  const options = { config, since, last, events: events?.join(","), path };
  const given = Object.entries(options).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name} ${shellWord(value)}`],
  );
  return ["rouse hooks diff", ...given].join(" ");
}

interface Sides {
  before: Snapshot;
  after: Snapshot;
}

const printLine = (line: WhatIfLine, io: CliIo): void => io.out(`${JSON.stringify(line)}\n`);

/** A report with the group that `--group` names alone. */
const withGroup = <R extends WhatIfReport>(report: R, { group }: DiffOptions): R =>
  group === undefined
    ? report
    : { ...report, groups: report.groups.filter((one) => groupName(one) === group) };

/** Shows how far a comparison came, and keeps its memory small. */
async function* watchReports(
  reports: AsyncIterable<WhatIfReport>,
  progress: ProgressLine,
  io: CliIo,
): AsyncGenerator<WhatIfReport> {
  const trim = io.stepBack?.();
  for await (const report of reports) {
    const [largest] = report.groups;
    const most = largest ? ` (${cell(groupName(largest))} ${largest.count})` : "";
    progress.update(report.events, `${report.events} events, ${report.changed} change${most}`);
    yield report;
    trim?.();
  }
  progress.end();
}

/** Compares, and returns the last report. With `--json` lines are printed as they are made, with `--group` each event of that group. */
async function compare(
  { before, after }: Sides,
  store: StoreReader,
  options: DiffOptions,
  io: CliIo,
): Promise<WhatIfReport> {
  const selection = readSelection(options, io);
  const progress = createProgress(io, "comparing");
  const onExample = (group: WhatIfGroup, example: WhatIfExample): void => {
    if (groupName(group) !== options.group) return;
    if (options.json) return printLine({ type: "group", ...group, examples: [example] }, io);
    progress.end();
    printExample(group, example, io);
  };
  const period = { from: selection.since, to: io.now() };
  const listens = options.group === undefined ? {} : { onExample };
  const settings = { period, store, repeats: selection.events !== undefined, ...listens };
  const reports = whatIf(before, after, readEvents(store, selection), settings);
  let end: WhatIfReport | undefined;
  for await (const line of toLines(watchReports(reports, progress, io))) {
    const shown = line.type === "end" ? (end = withGroup(line, options)) : line;
    if (options.json && (line.type !== "group" || options.group === undefined))
      printLine(shown, io);
  }
  return end as WhatIfReport;
}

/** With `--expect-same`: whether anything differs, or nothing could be compared. */
function checkSame({ changed, events, skipped }: WhatIfReport, io: CliIo): void {
  if (changed === 0 && events > skipped) return;
  io.exitCode = EXIT.failure;
  if (changed === 0) io.err("rouse: --expect-same: no event could be compared\n");
}

/** `rouse hooks diff`. Exit code 1 with `--expect-same` if anything differs, 3 if one of the configs has problems. */
export async function diffHooks(options: DiffOptions, io: CliIo): Promise<void> {
  const { config } = options;
  if (config === undefined) throw usage("name the proposed config with --config");
  readSelection(options, io);
  const todays = await findTodaysConfig(undefined, io);
  const report = await withFiles({ config: todays, title: "today's config" }, io, (today) => {
    const { snapshot: before } = today;
    const proposed = { config: resolve(io.cwd, config), title: "the proposed config" };
    return withFiles(proposed, io, ({ snapshot: after }) =>
      withReader(today, io, (store) => compare({ before, after }, store, options, io)),
    );
  });
  if (options.expectSame) checkSame(report, io);
  if (options.json) return;
  if (options.group === undefined) printReport(report, renderCommand(options), io);
  else printSum(report, io);
}
