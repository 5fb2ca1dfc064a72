import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { RouseError } from "../core/errors.ts";
import type { EventView } from "../admin/views.ts";
import { connectRunning, read, type GatewayConnection } from "./connect.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { cell, shortTime } from "./text.ts";

interface TailOptions extends CommonOptions {
  path?: string;
  outcome?: string;
  lines: string;
}

const POLL_MS = 1000;
const PAGE = 50;
/** Events are in the order in which they were written; one whose body came slowly is written later than it was received. */
const LATE_MS = 60_000;
/** Ids that are kept to know what was shown. */
const MAX_SHOWN = 5000;

/** Reads the events that were not shown yet, oldest first. */
async function readNew(
  to: GatewayConnection,
  { path, outcome }: TailOptions,
  since: number,
  shown: ReadonlySet<string>,
): Promise<EventView[]> {
  const fresh: EventView[] = [];
  let before: string | undefined;
  for (;;) {
    const query = { path, outcome, since: String(since), before, limit: String(PAGE) };
    const { events, next, searchedTo } = await read(to.api.events.$get({ query }));
    const unseen = events.filter(({ id }) => !shown.has(id));
    fresh.push(...unseen);
    // A page with an event that was shown reaches back far enough, and so does a search that looked at all since then.
    const isOver = unseen.length < events.length || (searchedTo !== null && Date.parse(searchedTo) < since);
    if (next === null || isOver) return fresh.toReversed();
    before = next;
  }
}

function printEvent(event: EventView, isJson: boolean, io: CliIo): void {
  if (isJson) return io.out(`${JSON.stringify(event)}\n`);
  const { id, receivedAt, outcome, path, mapping, reason, actions } = event;
  const work = reason ?? actions.map((action) => action.id).join(" ");
  io.out(`${[shortTime(receivedAt, io.now()), id, outcome.padEnd(9), path, mapping ?? "–", work].map(cell).join("  ").trimEnd()}\n`);
}

/** Follows the events of the running gateway until Ctrl-C: asks once a second for those of the last minute. */
async function tail(options: TailOptions, io: CliIo): Promise<void> {
  const to = await connectRunning(options, io);
  if (!to)
    throw new RouseError({
      code: "internal",
      message: "no gateway runs: `rouse start` starts one, `rouse events list` shows what came in",
    });
  const ended = new AbortController();
  const release = io.onInterrupt?.(() => ended.abort());
  const shown = new Set<string>();
  const show = (events: readonly EventView[]): void => {
    for (const event of events) {
      shown.add(event.id);
      printEvent(event, options.json === true, io);
    }
    for (const id of shown) if (shown.size > MAX_SHOWN) shown.delete(id);
  };
  try {
    const { path, outcome, lines } = options;
    const first = await read(to.api.events.$get({ query: { path, outcome, limit: String(PAGE) } }));
    for (const { id } of first.events) shown.add(id);
    show(first.events.slice(0, Number(lines)).toReversed());
    while (!ended.signal.aborted) {
      show(await readNew(to, options, io.now() - LATE_MS, shown));
      await sleep(POLL_MS, undefined, { signal: ended.signal }).catch(() => undefined);
    }
  } finally {
    release?.();
    await to.close();
  }
}

export function register(program: Command, io: CliIo): void {
  reading(
    program
      .command("tail")
      .description("follow the events of the running gateway, one line each; with --json one document a line; Ctrl-C ends it")
      .option("--path <path>", "the hook's path, such as shop")
      .option("--outcome <outcome>", "accepted, skipped, unmatched, duplicate, rejected or failed")
      .option("-n, --lines <n>", "how many of the last events to begin with, at most 50", "10"),
    "rouse tail",
    "rouse tail --path shop --json | jq -r .reason",
  ).action((options: TailOptions) => tail(options, io));
}
