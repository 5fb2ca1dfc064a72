import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import type { BulkReplay, ReplayLine } from "../operate/records/bulk-replay.ts";
import { bodyGone } from "../core/body-gone.ts";
import { OUTCOMES } from "../core/outcomes.ts";
import type { ReplayResult } from "../intake/types.ts";
import { connected, read, readLines, withId, type GatewayConnection } from "./connect.ts";
import { usage } from "./failure.ts";
import { resolveId } from "./ids.ts";
import { EXIT, type CliIo } from "./io.ts";
import { readCount, readRate } from "./numbers.ts";
import { OUTCOME_OPTION, reading, type CommonOptions } from "./options.ts";
import { printJson } from "./print.ts";
import { createProgress, type ProgressLine } from "./progress.ts";
import { readSince } from "./since.ts";
import { cell } from "./text.ts";

/** What chooses several events to replay. */
interface ReplayFilters extends CommonOptions {
  failed?: boolean;
  unmatched?: boolean;
  path?: string;
  mapping?: string;
  outcome?: string;
  since?: string;
  until?: string;
  limit?: string;
}

interface ReplayOptions extends ReplayFilters {
  rate?: string;
  action?: string;
  edit?: boolean;
  yes?: boolean;
  dryRun?: boolean;
}

const FILTERS = ["path", "mapping", "outcome", "since", "until", "limit"] as const;

/** Which events are meant; undefined if one is named. */
export function getSelection({
  failed,
  unmatched,
  ...options
}: ReplayFilters): BulkReplay["select"] | undefined {
  if (failed) return "failed";
  if (unmatched) return "unmatched";
  return FILTERS.some((name) => options[name] !== undefined) ? "all" : undefined;
}

function printReplayed(result: ReplayResult, io: CliIo): void {
  const into = result.newEventId === undefined ? "" : ` → ${result.newEventId}`;
  const { eventId, outcome, mapping, reason } = result;
  io.out(
    `${[`${eventId}${into}`, outcome, mapping, reason && cell(reason)].filter((part) => part !== undefined).join("  ")}\n`,
  );
  for (const action of result.actions)
    io.out(
      `  ${action.kind}${action.id === undefined ? "" : `  ${action.id}`}  ${cell(action.summary)}\n`,
    );
}

/** Opens a text in the user's editor, and returns it as it was saved. */
async function editText(bytes: Buffer, name: string, io: CliIo): Promise<Buffer> {
  const editor = io.env["VISUAL"] || io.env["EDITOR"] || "vi";
  const folder = await mkdtemp(join(tmpdir(), "rouse-edit-"));
  try {
    const file = join(folder, name);
    // A body may hold what other users of the machine must not read.
    await writeFile(file, bytes, { mode: 0o600 });
    const child = spawn("sh", ["-c", `${editor} "$1"`, "sh", file], {
      stdio: "inherit",
      env: { ...process.env, ...io.env },
    });
    const [code] = (await once(child, "exit")) as [number | null];
    if (code !== 0)
      throw usage(
        `the editor \`${editor}\` ended with ${code ?? "a signal"}; nothing was replayed`,
      );
    return await readFile(file);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The body of an event as the user has edited it, in base64; undefined if it was not changed. */
async function editBody(id: string, to: GatewayConnection, io: CliIo): Promise<string | undefined> {
  const { event } = await read(to.api.events[":id"].$get(withId(id)));
  const { body, encoding, contentType } = event.request;
  if (body === null) throw bodyGone();
  const before = Buffer.from(body, encoding);
  const after = await editText(
    before,
    contentType?.includes("json") === true ? "body.json" : "body.txt",
    io,
  );
  return after.equals(before) ? undefined : after.toString("base64");
}

async function replayOne(
  name: string,
  to: GatewayConnection,
  options: ReplayOptions,
  io: CliIo,
): Promise<void> {
  const id = await resolveId(to, "events", name);
  const body = options.edit ? await editBody(id, to, io) : undefined;
  if (options.edit && body === undefined)
    return io.err("the body was not changed; nothing was replayed\n");
  const json = {
    dryRun: options.dryRun === true,
    action: readCount("action", options.action),
    body,
  };
  const answer = await read(to.api.events[":id"].replay.$post({ ...withId(id), json }));
  if (options.json) printJson(io, answer);
  else printReplayed(answer.result, io);
  if (answer.result.outcome === "failed" || answer.result.outcome === "rejected")
    io.exitCode = EXIT.failure;
}

/** The last line of a bulk replay: `3 replayed: 2 accepted, 1 unmatched; 1 could not be replayed`. */
function replaySum(
  end: { replayed: number; failed: number },
  outcomes: ReadonlyMap<string, number>,
  dryRun: boolean,
): string {
  const counts = [...outcomes].map(([outcome, count]) => `${count} ${outcome}`).join(", ");
  const sum = `${end.replayed} ${dryRun ? "would be replayed" : "replayed"}${counts === "" ? "" : `: ${counts}`}`;
  return end.failed > 0 ? `${sum}; ${end.failed} could not be replayed` : sum;
}

/** Follows a bulk replay: the bar on a terminal, a line for each event, the sum at the end. */
async function replayAll(
  { ids, ...chosen }: Omit<BulkReplay, "dryRun">,
  to: GatewayConnection,
  options: ReplayOptions,
  io: CliIo,
): Promise<void> {
  const dryRun = options.dryRun === true;
  const all: ReplayLine[] = [];
  let progress: ProgressLine | undefined;
  let done = 0;
  const outcomes = new Map<string, number>();
  const json = {
    ...chosen,
    since: options.since,
    until: options.until,
    dryRun,
    ...(ids && { ids: [...ids] }),
  };
  for await (const line of readLines<ReplayLine>(to.api.events.replay.$post({ json }))) {
    if (options.json) all.push(line);
    if (line.type === "total")
      progress = createProgress(io, dryRun ? "trying" : "replaying", line.total);
    if (line.type === "result") {
      done++;
      // The bar goes away before a line is printed, so that they never share one.
      progress?.end();
      if (line.ok) outcomes.set(line.result.outcome, (outcomes.get(line.result.outcome) ?? 0) + 1);
      if (!options.json && line.ok) printReplayed(line.result, io);
      if (!options.json && !line.ok)
        io.out(`${line.eventId}  not replayed: ${cell(line.failure.message)}\n`);
      progress?.update(done);
    }
    if (line.type === "end") {
      progress?.end();
      if (line.failed > 0) io.exitCode = EXIT.failure;
      if (!options.json) io.out(`${replaySum(line, outcomes, dryRun)}\n`);
    }
  }
  if (options.json) printJson(io, { lines: all });
}

/** @throws RouseError `usage` if options that choose events, or that one event has, come with ids. */
function checkNamed(count: number, options: ReplayOptions): void {
  if (options.failed || options.unmatched)
    throw usage("name events, or use --failed or --unmatched");
  for (const name of FILTERS)
    if (options[name] !== undefined)
      throw usage(`--${name} chooses several events: leave the ids out`);
  if (count === 1 && options.rate !== undefined)
    throw usage("--rate goes with several events: leave the id out");
  const { action, edit } = options;
  if (count > 1 && (action !== undefined || edit))
    throw usage(`--${edit ? "edit" : "action"} goes with one event`);
}

/** Replays the events that are named; several of them from the oldest to the newest. */
async function replayNamed(
  names: readonly string[],
  options: ReplayOptions,
  io: CliIo,
): Promise<void> {
  checkNamed(names.length, options);
  await connected(options, io, async (to) => {
    const [only] = names;
    if (names.length === 1) return replayOne(only as string, to, options, io);
    const ids: string[] = [];
    for (const name of names) ids.push(await resolveId(to, "events", name));
    await replayAll({ select: "all", ids, perSecond: readRate(options.rate) }, to, options, io);
  });
}

function checkMany(
  select: BulkReplay["select"],
  { action, edit, outcome, yes, dryRun }: ReplayOptions,
): void {
  if (action !== undefined || edit)
    throw usage(`--${edit ? "edit" : "action"} goes with one event`);
  if (select !== "all" && outcome !== undefined)
    throw usage(`--outcome does not go with --${select}`);
  const doesWorkTwice = select === "all" && (outcome === undefined || outcome === "accepted");
  if (doesWorkTwice && !yes && !dryRun)
    throw usage(
      "accepted events would do their work a second time: choose others with --outcome, try it with --dry-run, or add --yes",
    );
}

/** Reads what chooses several events, whatever is done with them. */
function readFilters(
  { path, mapping, ...options }: ReplayOptions,
  io: CliIo,
): Pick<BulkReplay, (typeof FILTERS)[number]> {
  const [since, until] = (["since", "until"] as const).map((name) => {
    const text = options[name];
    return text === undefined ? undefined : readSince(text, io, name);
  });
  if (since !== undefined && until !== undefined && since >= until)
    throw usage(
      `--since ${options.since} is not before --until ${options.until}: no event lies between them`,
    );
  const outcome = OUTCOMES.find((known) => known === options.outcome);
  if (options.outcome !== undefined && outcome === undefined)
    throw usage(`--outcome ${options.outcome}: write ${OUTCOMES.join(", ")}`);
  return { path, mapping, outcome, since, until, limit: readCount("limit", options.limit) };
}

async function replay(names: readonly string[], options: ReplayOptions, io: CliIo): Promise<void> {
  if (names.length > 0) return replayNamed(names, options, io);
  if (options.failed && options.unmatched) throw usage("use --failed or --unmatched");
  const select = getSelection(options);
  if (select === undefined)
    throw usage(
      "name events, or choose several with --failed, --unmatched, --outcome, --path or --since",
    );
  checkMany(select, options);
  const chosen = { select, ...readFilters(options, io), perSecond: readRate(options.rate) };
  if (options.dryRun) {
    const { dryRunReplay } = await import("./hooks-diff.ts");
    return dryRunReplay({ ...chosen, dryRun: true }, options, io);
  }
  await connected(options, io, (to) => replayAll(chosen, to, options, io));
}

/** Adds `rouse events replay`. */
export function registerReplay(events: Command, io: CliIo): void {
  reading(
    events
      .command("replay [event...]")
      .description("replay events with the current mappings")
      .option("--failed", "all that failed: of those with runs, only the failed runs start again")
      .option("--unmatched", "all that no mapping matched")
      .option(...OUTCOME_OPTION)
      .option("--path <path>", "only those of this hook path")
      .option("--mapping <id>", "only those that this mapping took")
      .option("--since <time>", 'only newer ones: an age such as "2h", or a date')
      .option("--until <time>", "only older ones")
      .option("--limit <n>", "at most so many, the newest")
      .option("--rate <n>", "how many in a second, a minute or an hour, such as 5/s")
      .option("--action <n>", "only this action of one event, by its number from 1")
      .option("--edit", "open the body of one event in $VISUAL or $EDITOR, and replay it as saved")
      .option("--yes", "replay accepted events, too: they do their work a second time")
      .option("--dry-run", "only say what would be done; for events that filters choose in groups"),
    "rouse events replay evt_… --dry-run",
    "rouse events replay evt_… --edit",
    "rouse events replay evt_… evt_… --dry-run",
    "rouse events replay --unmatched --since 1d",
    "rouse events replay --outcome rejected --path shop --rate 5/s",
  ).action((names: string[], options: ReplayOptions) => replay(names, options, io));
}
