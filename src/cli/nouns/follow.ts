import { setTimeout as sleep } from "node:timers/promises";
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

const RECONNECT_MS = 1000;
/** Ids that are kept to know what was printed: after a break of the connection, events of the same moment may come again. */
const MAX_PRINTED = 1000;

function printEvent(event: EventView, isJson: boolean, io: CliIo): void {
  if (isJson) return io.out(`${printableJson(event)}\n`);
  const { id, receivedAt, outcome, path, mapping, reason, actions } = event;
  const work = reason ?? actions.map((action) => action.id).join(" ");
  io.out(
    `${[shortTime(receivedAt, io.now()), id, outcome.padEnd(9), path, mapping ?? "–", work].map(cell).join("  ").trimEnd()}\n`,
  );
}

const printSkipped = (count: number, isJson: boolean, io: CliIo): void =>
  io.out(isJson ? `${printableJson({ skipped: count })}\n` : `… ${count} more\n`);

/** Reads the stream of a running gateway until it ends. */
async function* readStream(
  options: FollowOptions,
  io: CliIo,
  after: string | undefined,
  signal: AbortSignal,
): AsyncGenerator<StreamLine> {
  const to = await connectRunning(options, io);
  if (!to)
    throw new RouseError({
      code: "internal",
      message: "no gateway runs: `rouse start` starts one, `rouse events` shows what came in",
    });
  const { path, mapping, outcome, limit } = options;
  const lines = Math.min(readCount("limit", limit) ?? FIRST_LINES, MAX_LINES);
  const query = { path, mapping, outcome, lines: String(lines), after };
  yield* readLines<StreamLine>(to.api.stream.$get({ query }), signal);
}

/** Follows the events of the running gateway until Ctrl-C, and continues behind the last one if the gateway starts again. */
async function followEvents(io: CliIo, options: FollowOptions): Promise<void> {
  const ended = new AbortController();
  const release = io.onInterrupt?.(() => ended.abort());
  const isJson = options.json === true;
  const printed = new Set<string>();
  let after: string | undefined;
  let isAway = false;
  const print = (line: StreamLine): void => {
    if (isAway) io.err("the gateway is back\n");
    isAway = false;
    if (line.type === "skipped") printSkipped(line.count, isJson, io);
    if (line.type !== "event" || printed.has(line.event.id)) return;
    after = line.event.id;
    printed.add(after);
    for (const id of printed) if (printed.size > MAX_PRINTED) printed.delete(id);
    printEvent(line.event, isJson, io);
  };
  let isFirst = true;
  try {
    while (!ended.signal.aborted) {
      try {
        for await (const line of readStream(options, io, after, ended.signal)) print(line);
      } catch (error) {
        if (isFirst && !ended.signal.aborted) throw error;
        if (error instanceof RouseError && error.code === "not_found") after = undefined;
      }
      isFirst = false;
      if (ended.signal.aborted) break;
      if (!isAway) io.err("the gateway is away; waiting for it, Ctrl-C ends this\n");
      isAway = true;
      await sleep(RECONNECT_MS, undefined, { signal: ended.signal }).catch(() => undefined);
    }
  } finally {
    release?.();
  }
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
