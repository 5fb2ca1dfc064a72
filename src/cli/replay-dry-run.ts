import { selectEvents, type BulkReplay } from "../admin/bulk-replay.ts";
import type { EventRecord, StoreReader } from "../store/types.ts";
import { whatIfReplayed, type WhatIfReport } from "../workbench/what-if.ts";
import { EXIT, type CliIo } from "./io.ts";
import { findTodaysConfig, withFiles, withReader } from "./offline.ts";
import type { CommonOptions } from "./options.ts";
import { printJson } from "./print.ts";
import { printGroups, printSkipped } from "./print-what-if.ts";
import { createProgress } from "./progress.ts";

/** What chooses several events to replay. */
export interface ReplayFilters extends CommonOptions {
  failed?: boolean;
  unmatched?: boolean;
  path?: string;
  mapping?: string;
  outcome?: string;
  since?: string;
  until?: string;
  limit?: string;
}

async function* getEvents(store: StoreReader, ids: readonly string[]): AsyncGenerator<EventRecord> {
  for (const id of ids) {
    const event = await store.get("event", id);
    if (event) yield event;
  }
}

/** `2 would be replayed: 1 accepted, 1 unmatched; 1 could not be replayed`. */
function renderSum({ events, skipped, outcomes }: WhatIfReport): string {
  const counts = Object.entries(outcomes).map(([outcome, count]) => `${count} ${outcome}`);
  const sum = `${events - skipped} would be replayed${counts.length === 0 ? "" : `: ${counts.join(", ")}`}`;
  return skipped > 0 ? `${sum}; ${skipped} could not be replayed` : sum;
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
      let last: WhatIfReport | undefined;
      for await (last of whatIfReplayed(today.snapshot, getEvents(store, ids), store)) {
        progress.update(last.events);
        trim?.();
      }
      progress.end();
      return last as WhatIfReport;
    }),
  );
  if (report.skipped > 0) io.exitCode = EXIT.failure;
  if (options.json) return printJson(io, report);
  io.out(`${renderSum(report)}\n`);
  printGroups(report, undefined, io);
  printSkipped(report, io);
}
