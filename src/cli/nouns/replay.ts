import type { ReplayResult } from "../../intake/types.ts";
import { choosing } from "./bulk.ts";
import { read, withId } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import { OUTCOME_OPTION, readCount, readInput } from "../options.ts";
import { cell } from "../text.ts";

function renderReplayed({
  eventId,
  newEventId,
  outcome,
  mapping,
  reason,
  actions,
}: ReplayResult): string {
  const into = newEventId === undefined ? "" : ` → ${newEventId}`;
  const head = [`${eventId}${into}`, outcome, mapping, reason && cell(reason)];
  const lines = actions.map(({ kind, id, summary }) => ["", kind, id, cell(summary)]);
  return [head, ...lines]
    .map((line) => line.filter((part) => part !== undefined).join("  "))
    .join("\n");
}

/** `rouse events replay`: of several events that are named, the oldest comes first. */
export const replay = choosing({
  usage: "replay [event...]",
  kind: "events",
  about: "replay events with the current mappings",
  examples: [
    "rouse events replay evt_… --dry-run",
    "rouse events replay evt_… --body edited.json",
    "rouse events replay evt_… evt_… --dry-run",
    "rouse events replay --unmatched --since 1d",
    "rouse events replay --outcome rejected --path shop --rate 5/s",
  ],
  filters: {
    "--failed": "all that failed: of those with runs, only the failed runs start again",
    "--unmatched": "all that no mapping matched",
    ...OUTCOME_OPTION,
    "--path <path>": "only those of this hook path",
    "--mapping <id>": "only those that this mapping took",
  },
  own: {
    "--action <n>": "only this action of one event, by its number from 1",
    "--body <file>": "replay one event with the body of this file; - reads standard input",
  },
  further: { "--yes": "replay accepted events, too: they do their work a second time" },
  dryRunsOne: true,
  async one({ api, io }, id, { dryRun = false, action, body: file }) {
    const json = {
      dryRun,
      action: readCount("action", action),
      body: file === undefined ? undefined : (await readInput(file, io)).toString("base64"),
    };
    return read(api.events[":id"].replay.$post({ ...withId(id), json }));
  },
  async many({ api }, chosen, { failed, unmatched, outcome, path, mapping, yes }) {
    if (chosen.ids) return api.events.replay.$post({ json: { ...chosen, select: "all" } });
    if (failed && unmatched) throw usage("use --failed or --unmatched");
    const select = failed ? "failed" : unmatched ? "unmatched" : "all";
    if (outcome !== undefined && select !== "all")
      throw usage(`--outcome does not go with --${select}`);
    const doesWorkTwice = select === "all" && (outcome === undefined || outcome === "accepted");
    if (doesWorkTwice && !yes && !chosen.dryRun)
      throw usage(
        "accepted events would do their work a second time: choose others with --outcome, try it with --dry-run, or add --yes",
      );
    return api.events.replay.$post({ json: { ...chosen, select, outcome, path, mapping } });
  },
  render: ({ result }) => renderReplayed(result),
  isFailure: ({ result }) => result.outcome === "failed" || result.outcome === "rejected",
  words: { done: "replayed", label: "replaying" },
});
