import { RouseError } from "../../core/errors.ts";
import type { StreamLine } from "../../operate/records/event-feed.ts";
import type { EventView } from "../../operate/records/views.ts";
import { doing, LIMIT_OPTION, type Given } from "../command.ts";
import { connectRunning, readLines } from "../gateway/connect.ts";
import type { CliIo } from "../io.ts";
import { OUTCOME_OPTION, readCount } from "../options.ts";
import { cell, printableJson, shortTime } from "../text.ts";

const OPTIONS = {
  "--path <path>": "the hook's path, such as shop",
  "--mapping <id>": "the mapping that took it",
  ...OUTCOME_OPTION,
  ...LIMIT_OPTION,
} as const;
type FollowOptions = Given<typeof OPTIONS>;

/** The number of recent events that are printed first, by default and at most. */
const [FIRST_LINES, MAX_LINES] = [10, 50];

function printEvent(event: EventView, isJson: boolean, io: CliIo): void {
  if (isJson) return io.out(`${printableJson(event)}\n`);
  const { id, receivedAt, outcome, path, mapping, reason, actions } = event;
  const work = reason ?? actions.map((action) => action.id).join(" ");
  io.out(
    `${[shortTime(receivedAt, io.now()), id, outcome.padEnd(9), path, mapping ?? "–", work].map(cell).join("  ").trimEnd()}\n`,
  );
}

/** Follows the events of the running gateway until Ctrl-C. */
async function followEvents(io: CliIo, options: FollowOptions): Promise<void> {
  const { path, mapping, outcome, limit, json = false } = options;
  const to = await connectRunning(options, io);
  if (!to)
    throw new RouseError({
      code: "internal",
      message: "no gateway runs: `rouse start` starts one, `rouse events` shows what came in",
    });
  const lines = Math.min(readCount("limit", limit) ?? FIRST_LINES, MAX_LINES);
  const query = { path, mapping, outcome, lines: String(lines) };
  const ended = new AbortController();
  const release = io.onInterrupt?.(() => ended.abort());
  try {
    for await (const line of readLines<StreamLine>(to.api.stream.$get({ query }), ended.signal)) {
      if (line.type === "event") printEvent(line.event, json, io);
      if (line.type === "skipped")
        io.out(json ? `${printableJson({ skipped: line.count })}\n` : `… ${line.count} more\n`);
    }
  } finally {
    release?.();
  }
  if (!ended.signal.aborted)
    throw new RouseError({ code: "internal", message: "the gateway has ended: nothing follows" });
}

export const follow = doing({
  usage: "",
  about:
    "follow the events of the running gateway, one line each, after the last 10 or as many as --limit says, at most 50; with --json one document a line; Ctrl-C ends it",
  examples: ["rouse events --follow", "rouse events --follow --path shop --json | jq -r .reason"],
  options: OPTIONS,
  json: true,
  run: followEvents,
});
