import type { ReplayResult } from "../../intake/types.ts";
import { BULK_OPTIONS, checkChoice, followBulk, readBulk } from "./bulk.ts";
import { doing, type Given } from "../command.ts";
import { connected, read, withId, type GatewayConnection } from "../gateway/connect.ts";
import { usage } from "../failure.ts";
import { resolveId } from "../ids.ts";
import { EXIT, type CliIo } from "../io.ts";
import { OUTCOME_OPTION, readCount, readInput, readRate } from "../options.ts";
import { printJson } from "../print.ts";
import { cell } from "../text.ts";

const CHOOSING = {
  "--failed": "all that failed: of those with runs, only the failed runs start again",
  "--unmatched": "all that no mapping matched",
  ...OUTCOME_OPTION,
  "--path <path>": "only those of this hook path",
  "--mapping <id>": "only those that this mapping took",
} as const;
const OF_ONE = {
  "--action <n>": "only this action of one event, by its number from 1",
  "--body <file>": "replay one event with the body of this file; - reads standard input",
} as const;
const OPTIONS = {
  ...CHOOSING,
  ...BULK_OPTIONS,
  ...OF_ONE,
  "--yes": "replay accepted events, too: they do their work a second time",
} as const;
type ReplayOptions = Given<typeof OPTIONS>;

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
    .map((line) => `${line.filter((part) => part !== undefined).join("  ")}\n`)
    .join("");
}

async function replayOne(
  to: GatewayConnection,
  id: string,
  options: ReplayOptions,
  io: CliIo,
): Promise<void> {
  const file = options.body;
  const json = {
    dryRun: options.dryRun === true,
    action: readCount("action", options.action),
    body: file === undefined ? undefined : (await readInput(file, io)).toString("base64"),
  };
  const answer = await read(to.api.events[":id"].replay.$post({ ...withId(id), json }));
  if (options.json) printJson(io, answer);
  else io.out(renderReplayed(answer.result));
  if (answer.result.outcome === "failed" || answer.result.outcome === "rejected")
    io.exitCode = EXIT.failure;
}

/** Reads which events are meant. */
function readSelect({ failed, unmatched, outcome, yes, dryRun }: ReplayOptions) {
  if (failed && unmatched) throw usage("use --failed or --unmatched");
  const select = failed ? "failed" : unmatched ? "unmatched" : "all";
  if (outcome !== undefined && select !== "all")
    throw usage(`--outcome does not go with --${select}`);
  const doesWorkTwice = select === "all" && (outcome === undefined || outcome === "accepted");
  if (doesWorkTwice && !yes && !dryRun)
    throw usage(
      "accepted events would do their work a second time: choose others with --outcome, try it with --dry-run, or add --yes",
    );
  return { select, outcome } as const;
}

/** `rouse events replay`: of several events that are named, the oldest comes first. */
export const replay = doing({
  usage: "replay [event...]",
  about: "replay events with the current mappings",
  examples: [
    "rouse events replay evt_… --dry-run",
    "rouse events replay evt_… --body edited.json",
    "rouse events replay evt_… evt_… --dry-run",
    "rouse events replay --unmatched --since 1d",
    "rouse events replay --outcome rejected --path shop --rate 5/s",
  ],
  options: OPTIONS,
  json: true,
  async run(io, options, names) {
    checkChoice(options, names.length, {
      filters: CHOOSING,
      own: OF_ONE,
      how: { "--rate <n>": "" },
    });
    const { path, mapping, rate, dryRun = false } = options;
    const how =
      names.length > 0
        ? { select: "all" as const, perSecond: readRate(rate), dryRun }
        : { ...readSelect(options), path, mapping, ...readBulk(options, io) };
    await connected(options, io, async (to) => {
      const ids: string[] = [];
      for (const name of names) ids.push(await resolveId(to, "events", name));
      const [only, ...others] = ids;
      if (only !== undefined && others.length === 0) return replayOne(to, only, options, io);
      const json = { ...how, ...(ids.length > 0 && { ids }) };
      const words = { done: "replayed", label: "replaying" };
      await followBulk(to.api.events.replay.$post({ json }), options, io, words);
    });
  },
});
