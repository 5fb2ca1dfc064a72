import type { WhatIfExample, WhatIfGroup } from "./what-if-groups.ts";
import type { WhatIfReport } from "./comparison.ts";

/**
 * The lines of a comparison: how far it came, groups as they are found, and one `end` with the whole report. A later line of a
 * group has a larger count, and those of its examples that no earlier line has. For operators only: examples quote events.
 */
export type WhatIfLine =
  | ({ type: "progress" } & Pick<
      WhatIfReport,
      "events" | "skipped" | "changed" | "wouldRun" | "wouldNotRun"
    >)
  | ({ type: "group" } & WhatIfGroup)
  | WhatIfEnd;

/** The last line. */
export type WhatIfEnd = { type: "end" } & WhatIfReport;

/** What earlier lines have of a group. */
interface Shown {
  count: number;
  examples: ReadonlySet<WhatIfExample>;
}

/** Makes lines of reports, which come one after the other. */
export async function* toLines(
  reports: AsyncIterable<WhatIfReport>,
): AsyncGenerator<WhatIfLine, void> {
  const shown = new Map<string, Shown>();
  for await (const report of reports) {
    const { events, skipped, changed, wouldRun, wouldNotRun } = report;
    for (const group of report.groups) {
      const key = `${group.kind} ${group.mapping ?? ""}`;
      const before = shown.get(key);
      if (before?.count === group.count) continue;
      shown.set(key, { count: group.count, examples: new Set(group.examples) });
      yield {
        type: "group",
        ...group,
        examples: group.examples.filter((example) => !before?.examples.has(example)),
      };
    }
    yield report.complete
      ? { type: "end", ...report }
      : { type: "progress", events, skipped, changed, wouldRun, wouldNotRun };
  }
}
