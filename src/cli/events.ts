import type { Command } from "commander";
import type { BookmarkView, EventDetail, EventView } from "../admin/views.ts";
import { connected, read, withId, type GatewayConnection } from "./connect.ts";
import { resolveId } from "./ids.ts";
import type { CliIo } from "./io.ts";
import {
  OUTCOME_OPTION,
  listing,
  ownOptions,
  reading,
  type CommonOptions,
  type PageOptions,
} from "./options.ts";
import { printBlock, printDebug, printFields, printJson, printMore, printTable } from "./print.ts";
import { registerReplay } from "./replay.ts";
import { readListPage } from "./search.ts";
import { bytes, localTime, shortTime } from "./text.ts";

interface ListOptions extends PageOptions {
  outcome?: string;
  path?: string;
  mapping?: string;
  failed?: boolean;
  bookmarked?: boolean;
  search?: string;
}

/** Returns the reason of an event, or what came of it. */
function describeOutcome(event: EventView): string {
  return event.reason === null ? event.actions.map(({ id }) => id).join(" ") : event.text;
}

async function list(options: ListOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, async (to) => {
    const before = options.before && (await resolveId(to, "events", options.before));
    const filters = {
      ...ownOptions(options),
      failed: options.failed ? "1" : undefined,
      bookmarked: options.bookmarked ? "1" : undefined,
    } as const;
    return readListPage(
      io,
      { before, limit: options.limit },
      (page) => read(to.api.events.$get({ query: { ...filters, ...page } })),
      ({ events }) => events,
    );
  });
  if (options.json) return printJson(io, answer);
  const { events } = answer;
  const rows = events.map((event) => [
    event.id,
    shortTime(event.receivedAt, io.now()),
    event.path,
    event.outcome,
    event.mapping ?? "–",
    describeOutcome(event),
  ]);
  printTable(io, ["EVENT", "RECEIVED", "PATH", "OUTCOME", "MAPPING", "REASON OR WORK"], rows);
  printMore(io, "rouse events list", answer);
}

const describeHandled = (handled: NonNullable<EventView["handled"]>): string =>
  `${handled.as} ${localTime(handled.at)}: ${handled.as === "discarded" ? handled.reason : handled.eventId}`;

function printEvent(event: EventDetail, bookmark: BookmarkView | null, io: CliIo): void {
  printFields(io, {
    event: event.id,
    received: localTime(event.receivedAt),
    path: event.path,
    outcome: event.outcome,
    reason: event.reason,
    answered: event.answerStatus,
    mapping: event.mapping,
    warnings: event.warnings.join("; "),
    missing: event.missing.join(", "),
    "duplicate of": event.duplicateOf,
    "replay of":
      event.replayOf && `${event.replayOf}${event.edited ? ", with an edited body" : ""}`,
    handled: event.handled && describeHandled(event.handled),
    bookmarked:
      bookmark && `${localTime(bookmark.at)}${bookmark.note === null ? "" : `: ${bookmark.note}`}`,
    "came in by": event.credential,
    from: event.address,
    "content type": event.request.contentType,
    body: event.bodyBytes === null ? "no longer kept" : bytes(event.bodyBytes),
  });
  for (const action of event.actions)
    io.out(
      `${action.kind}  ${action.id}  ${action.status ?? ""}  ${action.mapping ?? ""}\n`.replace(
        / +\n/,
        "\n",
      ),
    );
  for (const { kind, mapping, content, fields } of event.would) {
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
    printBlock(
      io,
      `in shadow, ${mapping ?? kind} would have done`,
      [...lines, "", content.map((part) => part.text).join("")].join("\n"),
    );
  }
  printDebug(io, event.debug);
  const headers = Object.entries(event.request.headers).map(([name, value]) => `${name}: ${value}`);
  if (headers.length > 0) printBlock(io, "headers", headers.join("\n"));
  if (event.request.body !== null && event.request.body !== "")
    printBlock(
      io,
      event.request.encoding === "base64" ? "body (base64)" : "body",
      event.request.body,
    );
}

/** Returns a recorded event. `id` may be the beginning of an id, or `latest`. */
export async function fetchEvent(
  to: GatewayConnection,
  id: string,
): Promise<{ event: EventDetail; bookmark: BookmarkView | null }> {
  return read(to.api.events[":id"].$get(withId(await resolveId(to, "events", id))));
}

async function show(id: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, (to) => fetchEvent(to, id));
  if (options.json) return printJson(io, answer);
  printEvent(answer.event, answer.bookmark, io);
}

async function discard(
  id: string,
  { reason, ...options }: CommonOptions & { reason: string },
  io: CliIo,
): Promise<void> {
  const answer = await connected(options, io, async (to) =>
    read(
      to.api.events[":id"].discard.$post({
        ...withId(await resolveId(to, "events", id)),
        json: { reason },
      }),
    ),
  );
  if (options.json) return printJson(io, answer);
  io.out(`${answer.event.id}  discarded\n`);
}

async function bookmark(
  id: string,
  { note, ...options }: CommonOptions & { note?: string },
  io: CliIo,
): Promise<void> {
  const answer = await connected(options, io, async (to) => {
    const event = await resolveId(to, "events", id);
    return {
      event,
      ...(await read(to.api.events[":id"].bookmark.$put({ ...withId(event), json: { note } }))),
    };
  });
  if (options.json) return printJson(io, answer);
  io.out(`${answer.event}  bookmarked: it is kept until the bookmark is removed\n`);
}

async function unbookmark(id: string, options: CommonOptions, io: CliIo): Promise<void> {
  const event = await connected(options, io, async (to) => {
    const whole = await resolveId(to, "events", id);
    await read(to.api.events[":id"].bookmark.$delete(withId(whole)));
    return whole;
  });
  if (options.json) return printJson(io, { event });
  io.out(`${event}  bookmark removed\n`);
}

async function listDenied(options: CommonOptions & { limit?: string }, io: CliIo): Promise<void> {
  const { live, ...answer } = await connected(options, io, async (to) => ({
    live: to.live,
    ...(await read(to.api.refusals.$get({ query: { limit: options.limit } }))),
  }));
  if (options.json) return printJson(io, answer);
  const { refusals } = answer;
  if (!live) io.err("no gateway runs: rejected requests are kept in its memory only\n");
  const rows = refusals.map(({ at, address, path, reason }) => [
    shortTime(at, io.now()),
    address,
    path,
    reason,
  ]);
  printTable(io, ["AT", "ADDRESS", "PATH", "REASON"], rows);
}

export function register(program: Command, io: CliIo): void {
  const events = program.command("events").description("what came in, and what became of it");
  listing(
    events
      .command("list")
      .description("events, newest first")
      .option(...OUTCOME_OPTION)
      .option("--path <path>", "the hook's path, such as shop")
      .option("--mapping <id>", "the mapping that took it")
      .option("--failed", "those with a run that failed")
      .option("--bookmarked", "those with a bookmark")
      .option(
        "--search <text>",
        "words of the id, path, mapping, reason or a body that is kept, and field:value: path, mapping and outcome of the event, any other name of the body",
      ),
    "rouse events list --outcome unmatched --since 2h",
    "rouse events list --path shop --search 'data.total:240'",
    "rouse events list --failed --json | jq -r '.events[].id'",
  ).action((options: ListOptions) => list(options, io));
  reading(
    events.command("show <event>").description("one event with its headers and body"),
    "rouse events show evt_…",
  ).action((id: string, options: CommonOptions) => show(id, options, io));
  reading(
    events
      .command("refused")
      .description(
        "rejected requests (authentication failed), newest first, since the gateway's start",
      )
      .option("--limit <n>", "how many (default 50, at most 500)"),
    "rouse events refused",
  ).action((options: CommonOptions & { limit?: string }) => listDenied(options, io));
  reading(
    events
      .command("bookmark <event>")
      .description(
        "keep an event with its body beyond hooks.retention and store.retention, until the bookmark is removed",
      )
      .option("--note <text>", "what it is kept for"),
    'rouse events bookmark evt_… --note "the refund that failed"',
  ).action((id: string, options: CommonOptions & { note?: string }) => bookmark(id, options, io));
  reading(
    events
      .command("unbookmark <event>")
      .description("remove a bookmark: the event is kept as long as others"),
    "rouse events unbookmark evt_…",
  ).action((id: string, options: CommonOptions) => unbookmark(id, options, io));
  registerReplay(events, io);
  reading(
    events
      .command("discard <event>")
      .description(
        "discard an event that failed and is not needed: doctor and bulk replays leave it out",
      )
      .requiredOption("--reason <text>", "why, for those who look at it later"),
    'rouse events discard evt_… --reason "the order was placed again"',
  ).action((id: string, options: CommonOptions & { reason: string }) => discard(id, options, io));
}
