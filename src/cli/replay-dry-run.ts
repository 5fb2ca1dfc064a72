import { selectEvents, type BulkReplay } from "../admin/bulk-replay.ts";
import type { EventRecord, StoreReader } from "../store/types.ts";
import { whatIf, type WhatIfReport } from "../workbench/what-if.ts";
import { EXIT, type CliIo } from "./io.ts";
import { findTodaysConfig, withFiles, withReader } from "./offline.ts";
import type { CommonOptions } from "./options.ts";
import { printJson } from "./print.ts";
import { printReport } from "./print-what-if.ts";
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
      const options = { store, repeats: true };
      for await (const line of whatIf(undefined, today.snapshot, getEvents(store, ids), options)) {
        if (line.type === "progress") progress.update(line.events);
        if (line.type === "end") last = line;
        trim?.();
      }
      progress.end();
      return last as WhatIfReport;
    }),
  );
  if (report.skipped > 0) io.exitCode = EXIT.failure;
  if (options.json) return printJson(io, report);
  printReport(report, undefined, io);
}
