import { resolve } from "node:path";
import { plural } from "../../core/text.ts";
import type { Snapshot } from "../../intake/types.ts";
import type { StoreReader } from "../../store/types.ts";
import { DEFAULT_LAST, type Selection } from "../../operate/what-if/selection.ts";
import { whatIf, type WhatIfEnd } from "../../operate/what-if/what-if.ts";
import { doing, type Given } from "../command.ts";
import { usage } from "../failure.ts";
import { EXIT, type CliIo } from "../io.ts";
import { findTodaysConfig, withFiles, withReader } from "../gateway/offline.ts";
import { readSince } from "../options.ts";
import { printReport } from "./print-what-if.ts";
import { createProgress } from "../progress.ts";

const DIFF_OPTIONS = {
  "--since <time>": 'newer events: an age such as "7d", or a date such as "2026-01-31T08:00"',
  "--last <n>": "at most so many of the newest events (default 10000, with --since all)",
  "--path <path>": "only events of this hook path, such as shop",
  "--expect-same": "exit code 1 if anything differs",
} as const;
type DiffOptions = Given<typeof DIFF_OPTIONS>;

function readSelection({ since, last, path }: DiffOptions, io: CliIo): Selection {
  const from = since === undefined ? undefined : readSince(since, io);
  const count = last === undefined ? (from === undefined ? DEFAULT_LAST : Infinity) : Number(last);
  if (!(count >= 1) || (last !== undefined && !/^\d+$/.test(last)))
    throw usage(`--last ${last}: write a number of events`);
  return { since: from, last: count, path };
}

interface Sides {
  before: Snapshot;
  after: Snapshot;
}

/** Compares, and returns the last line. With `--json` lines are printed as they are made. */
async function compare(
  { before, after }: Sides,
  store: StoreReader,
  selection: Selection,
  { json }: DiffOptions,
  io: CliIo,
): Promise<WhatIfEnd> {
  const progress = createProgress(io, "comparing");
  io.stepBack?.();
  let end: WhatIfEnd | undefined;
  for await (const line of whatIf(before, after, { store, selection, now: io.now() })) {
    if (line.type === "end") end = line;
    else
      progress.update(
        line.events,
        `${plural(line.events, "event")}, ${plural(line.changed, "changes", "change")}`,
      );
    if (json) io.out(`${JSON.stringify(line)}\n`);
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

/** Exit code 1 with `--expect-same` if anything differs, 3 if one of the configs has problems. */
async function diffHooks(io: CliIo, options: DiffOptions): Promise<void> {
  const { config } = options;
  if (config === undefined) throw usage("name the proposed config with --config");
  const selection = readSelection(options, io);
  const todays = await findTodaysConfig(io);
  const report = await withFiles({ config: todays, title: "today's config" }, io, (today) => {
    const { snapshot: before } = today;
    const proposed = { config: resolve(io.cwd, config), title: "the proposed config" };
    return withFiles(proposed, io, ({ snapshot: after }) =>
      withReader(today, io, (store) => compare({ before, after }, store, selection, options, io)),
    );
  });
  if (options.expectSame) checkSame(report, io);
  if (options.json) return;
  printReport(report, io);
}

export const diff = doing({
  usage: "diff",
  about:
    "what a changed config would do with the hooks that came in; it reads recorded events alone: no run starts, and nothing is written or sent",
  examples: [
    "rouse hooks diff --config next.json5 --since 7d",
    "rouse hooks diff --config next.json5 --path acme --last 1000",
    "rouse hooks diff --config next.json5 --expect-same --json | jq 'select(.type == \"end\") | .groups[] | {kind, mapping, count}'",
  ],
  options: DIFF_OPTIONS,
  help: "\n--config names the config as it would be; today's is the one that the gateway uses.\n",
  json: true,
  run: diffHooks,
});
