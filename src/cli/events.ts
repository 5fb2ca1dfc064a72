import type { Command } from "commander";
import type { ReplayLine } from "../admin/bulk-replay.ts";
import type { EventDetail, EventView } from "../admin/views.ts";
import type { ReplayResult } from "../intake/types.ts";
import { connected, read, readLines, withId, type GatewayConnection } from "./connect.ts";
import { usage } from "./failure.ts";
import { resolveId } from "./ids.ts";
import { EXIT, type CliIo } from "./io.ts";
import { listing, ownOptions, reading, type CommonOptions, type PageOptions } from "./options.ts";
import { printBlock, printDebug, printFields, printJson, printMore, printTable } from "./print.ts";
import { createProgress, type ProgressLine } from "./progress.ts";
import { readListPage } from "./search.ts";
import { bytes, cell, localTime, shortTime } from "./text.ts";

interface ListOptions extends PageOptions {
  outcome?: string;
  path?: string;
  mapping?: string;
  failed?: boolean;
}

interface ReplayOptions extends CommonOptions {
  failed?: boolean;
  unmatched?: boolean;
  path?: string;
  since?: string;
  dryRun?: boolean;
}

/** Returns the reason of an event, or what came of it. */
function describeOutcome(event: EventView): string {
  if (event.reason !== null) return event.reason;
  return event.actions.map(({ id }) => id).join(" ");
}

async function list(options: ListOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, async (to) => {
    const before = options.before && (await resolveId(to, "events", options.before));
    const filters = { ...ownOptions(options), failed: options.failed ? "1" : undefined };
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

function printEvent(event: EventDetail, io: CliIo): void {
  printFields(io, {
    event: event.id,
    received: localTime(event.receivedAt),
    path: event.path,
    outcome: event.outcome,
    reason: event.reason,
    answered: event.answerStatus,
    mapping: event.mapping,
    nearest: event.nearest && `${event.nearest.mapping} (${event.nearest.condition} does not hold)`,
    warnings: event.warnings.join("; "),
    missing: event.missing.join(", "),
    "duplicate of": event.duplicateOf,
    "replay of": event.replayOf,
    "came in by": event.credential,
    from: event.address,
    "content type": event.request.contentType,
    body: event.bodyBytes === null ? "no longer kept" : bytes(event.bodyBytes),
  });
  for (const action of event.actions)
    io.out(`${action.kind}  ${action.id}  ${action.status ?? ""}  ${action.mapping ?? ""}\n`.replace(/ +\n/, "\n"));
  for (const { kind, mapping, content, fields } of event.would) {
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
    printBlock(io, `in shadow, ${mapping ?? kind} would have done`, [...lines, "", content.map((part) => part.text).join("")].join("\n"));
  }
  printDebug(io, event.debug);
  const headers = Object.entries(event.request.headers).map(([name, value]) => `${name}: ${value}`);
  if (headers.length > 0) printBlock(io, "headers", headers.join("\n"));
  if (event.request.body !== null && event.request.body !== "")
    printBlock(io, event.request.encoding === "base64" ? "body (base64)" : "body", event.request.body);
}

/** Returns a recorded event. `id` may be the beginning of an id, or `latest`. */
export async function fetchEvent(to: GatewayConnection, id: string): Promise<{ event: EventDetail }> {
  return read(to.api.events[":id"].$get(withId(await resolveId(to, "events", id))));
}

async function show(id: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, (to) => fetchEvent(to, id));
  if (options.json) return printJson(io, answer);
  const { event } = answer;
  printEvent(event, io);
}

function printReplayed(result: ReplayResult, io: CliIo): void {
  const into = result.newEventId === undefined ? "" : ` → ${result.newEventId}`;
  io.out(
    `${result.eventId}${into}  ${result.outcome}${result.mapping === undefined ? "" : `  ${result.mapping}`}${result.reason === undefined ? "" : `  ${cell(result.reason)}`}\n`,
  );
  for (const action of result.actions)
    io.out(`  ${action.kind}${action.id === undefined ? "" : `  ${action.id}`}  ${cell(action.summary)}\n`);
}

async function replayOne(id: string, dryRun: boolean, to: GatewayConnection, options: ReplayOptions, io: CliIo): Promise<void> {
  const target = withId(await resolveId(to, "events", id));
  const answer = await read(to.api.events[":id"].replay.$post({ ...target, json: { dryRun } }));
  if (options.json) printJson(io, answer);
  else printReplayed(answer.result, io);
  if (answer.result.outcome === "failed" || answer.result.outcome === "rejected") io.exitCode = EXIT.failure;
}

/** The last line of a bulk replay: `3 replayed: 2 accepted, 1 unmatched; 1 could not be`. */
function replaySum(end: { replayed: number; failed: number }, dryRun: boolean, outcomes: ReadonlyMap<string, number>): string {
  const counts = [...outcomes].map(([outcome, count]) => `${count} ${outcome}`).join(", ");
  const sum = `${end.replayed} ${dryRun ? "would be replayed" : "replayed"}${counts === "" ? "" : `: ${counts}`}`;
  return end.failed > 0 ? `${sum}; ${end.failed} could not be replayed` : sum;
}

/** Follows a bulk replay: the bar on a terminal, a line for each event, the sum at the end. */
async function replayAll(
  select: "failed" | "unmatched",
  dryRun: boolean,
  to: GatewayConnection,
  options: ReplayOptions,
  io: CliIo,
): Promise<void> {
  const all: ReplayLine[] = [];
  let progress: ProgressLine | undefined;
  let done = 0;
  const { path, since } = options;
  const outcomes = new Map<string, number>();
  for await (const line of readLines<ReplayLine>(to.api.events.replay.$post({ json: { select, dryRun, path, since } }))) {
    if (options.json) all.push(line);
    if (line.type === "total") progress = createProgress(io, dryRun ? "trying" : "replaying", line.total);
    if (line.type === "result") {
      done++;
      // The bar goes away before a line is printed, so that they never share one.
      progress?.end();
      if (line.ok) outcomes.set(line.result.outcome, (outcomes.get(line.result.outcome) ?? 0) + 1);
      if (!options.json && line.ok) printReplayed(line.result, io);
      if (!options.json && !line.ok) io.out(`${line.eventId}  not replayed: ${cell(line.failure.message)}\n`);
      progress?.update(done);
    }
    if (line.type === "end") {
      progress?.end();
      if (line.failed > 0) io.exitCode = EXIT.failure;
      if (!options.json) io.out(`${replaySum(line, dryRun, outcomes)}\n`);
    }
  }
  if (options.json) printJson(io, { lines: all });
}

async function replay(id: string | undefined, options: ReplayOptions, io: CliIo): Promise<void> {
  const ways = [id !== undefined, options.failed === true, options.unmatched === true].filter(Boolean).length;
  if (ways !== 1) throw usage("name one event, or use --failed or --unmatched");
  for (const name of ["since", "path"] as const)
    if (id !== undefined && options[name] !== undefined) throw usage(`--${name} goes with --failed or --unmatched`);
  const dryRun = options.dryRun === true;
  await connected(options, io, (to) =>
    id === undefined ? replayAll(options.failed ? "failed" : "unmatched", dryRun, to, options, io) : replayOne(id, dryRun, to, options, io),
  );
}

async function listDenied(options: CommonOptions & { limit?: string }, io: CliIo): Promise<void> {
  const { live, ...answer } = await connected(options, io, async (to) => ({
    live: to.live,
    ...(await read(to.api.refusals.$get({ query: { limit: options.limit } }))),
  }));
  if (options.json) return printJson(io, answer);
  const { refusals } = answer;
  if (!live) io.err("no gateway runs: rejected requests are kept in its memory only\n");
  const rows = refusals.map(({ at, address, path, reason }) => [shortTime(at, io.now()), address, path, reason]);
  printTable(io, ["AT", "ADDRESS", "PATH", "REASON"], rows);
}

export function register(program: Command, io: CliIo): void {
  const events = program.command("events").description("what came in, and what became of it");
  listing(
    events
      .command("list")
      .description("events, newest first")
      .option("--outcome <outcome>", "accepted, skipped, unmatched, duplicate, rejected or failed")
      .option("--path <path>", "the hook's path, such as shop")
      .option("--mapping <id>", "the mapping that took it")
      .option("--failed", "those with a run that failed"),
    "rouse events list --outcome unmatched --since 2h",
    "rouse events list --failed --json | jq -r '.events[].id'",
  ).action((options: ListOptions) => list(options, io));
  reading(events.command("show <event>").description("one event with its headers and body"), "rouse events show evt_…").action(
    (id: string, options: CommonOptions) => show(id, options, io),
  );
  reading(
    events
      .command("refused")
      .description("rejected requests (authentication failed), newest first, since the gateway's start")
      .option("--limit <n>", "how many (default 50, at most 500)"),
    "rouse events refused",
  ).action((options: CommonOptions & { limit?: string }) => listDenied(options, io));
  reading(
    events
      .command("replay [event]")
      .description("replay events with the current mappings")
      .option("--failed", "all that failed: of those with runs, only the failed runs start again")
      .option("--unmatched", "all that no mapping matched")
      .option("--path <path>", "only those of this hook path")
      .option("--since <time>", 'only newer ones: an age such as "2h", or a date')
      .option("--dry-run", "only say what would be done"),
    "rouse events replay evt_… --dry-run",
    "rouse events replay --unmatched --since 1d",
  ).action((id: string | undefined, options: ReplayOptions) => replay(id, options, io));
}
