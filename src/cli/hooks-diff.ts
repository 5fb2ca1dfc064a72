import { type BulkReplay, selectEvents } from "../operate/records/bulk.ts";
import type { EventRecord } from "../store/event-record.ts";
import { resolve } from "node:path";
import type { Snapshot } from "../intake/types.ts";
import type { StoreReader } from "../store/types.ts";
import { DEFAULT_LAST, readEvents, type Selection } from "../operate/what-if/selection.ts";
import {
  whatIf,
  type WhatIfExample,
  type WhatIfEnd,
  type WhatIfGroup,
  type WhatIfLine,
} from "../operate/what-if/what-if.ts";
import type { DiffOptions } from "./hooks-options.ts";
import { usage } from "./failure.ts";
import { EXIT, type CliIo } from "./io.ts";
import { findTodaysConfig, withFiles, withReader } from "./offline.ts";
import { type CommonOptions, readSince } from "./options.ts";
import { printJson } from "./print.ts";
import { groupName, printExample, printReport, printSum } from "./print-what-if.ts";
import { createProgress } from "./progress.ts";
import { shellWord } from "./text.ts";

function readSelection({ since, last, events, path }: DiffOptions, io: CliIo): Selection {
  const from = since === undefined ? undefined : readSince(since, io);
  const count = last === undefined ? (from === undefined ? DEFAULT_LAST : Infinity) : Number(last);
  if (!(count >= 1) || (last !== undefined && !/^\d+$/.test(last)))
    throw usage(`--last ${last}: write a number of events`);
  if (events && (since !== undefined || last !== undefined || path !== undefined))
    throw usage("--events names the events: leave --since, --last and --path out");
  return { since: from, last: count, events: events?.split(","), path };
}

/** The options that say what is compared, for the commands that the report names. */
function renderCommand({ config, since, last, events, path }: DiffOptions): string {
  const options = { config, since, last, events, path };
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

/** Compares, and returns the last line. With `--json` lines are printed as they are made, with `--group` each event of that group. */
async function compare(
  { before, after }: Sides,
  store: StoreReader,
  options: DiffOptions,
  io: CliIo,
): Promise<WhatIfEnd> {
  const selection = readSelection(options, io);
  const progress = createProgress(io, "comparing");
  const trim = io.stepBack?.();
  const isMeant = (group: WhatIfGroup): boolean => groupName(group) === options.group;
  const onExample = (group: WhatIfGroup, example: WhatIfExample): void => {
    if (!isMeant(group)) return;
    if (options.json) return printLine({ type: "group", ...group, examples: [example] }, io);
    progress.end();
    printExample(group, example, io);
  };
  const settings = {
    period: { from: selection.since, to: io.now() },
    store,
    repeats: selection.events !== undefined,
    ...(options.group !== undefined && { onExample }),
  };
  let end: WhatIfEnd | undefined;
  for await (const line of whatIf(before, after, readEvents(store, selection), settings)) {
    if (line.type === "end")
      end = options.group === undefined ? line : { ...line, groups: line.groups.filter(isMeant) };
    if (line.type === "progress")
      progress.update(line.events, `${line.events} events, ${line.changed} change`);
    if (options.json && (line.type !== "group" || options.group === undefined))
      printLine(end ?? line, io);
    trim?.();
  }
  progress.end();
  return end as WhatIfEnd;
}

/** With `--expect-same`: whether anything differs, or nothing could be compared. */
function checkSame({ changed, events, skipped }: WhatIfEnd, io: CliIo): void {
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

async function* getEvents(store: StoreReader, ids: readonly string[]): AsyncGenerator<EventRecord> {
  for (const id of ids) {
    const event = await store.get("event", id);
    if (event) yield event;
  }
}

/** `rouse events replay --dry-run` with several events: what would become of them with today's mappings, in groups. */
export async function dryRunReplay(
  bulk: BulkReplay,
  options: CommonOptions,
  io: CliIo,
): Promise<void> {
  const trim = io.stepBack?.();
  const config = await findTodaysConfig(options.config, io);
  const report = await withFiles({ config }, io, (today) =>
    withReader(today, io, async (store) => {
      const ids = (await selectEvents(store, bulk)).map(({ id }) => id);
      const progress = createProgress(io, "trying", ids.length);
      let last: WhatIfEnd | undefined;
      const options = { store, repeats: true };
      for await (const line of whatIf(undefined, today.snapshot, getEvents(store, ids), options)) {
        if (line.type === "progress") progress.update(line.events);
        if (line.type === "end") last = line;
        trim?.();
      }
      progress.end();
      return last as WhatIfEnd;
    }),
  );
  if (report.skipped > 0) io.exitCode = EXIT.failure;
  if (options.json) return printJson(io, report);
  printReport(report, undefined, io);
}
