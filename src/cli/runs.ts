import type { Command } from "commander";
import { plainText } from "../core/text.ts";
import type { RunDetail } from "../admin/views.ts";
import { connected, read, withId } from "./connect.ts";
import { resolveId } from "./ids.ts";
import type { CliIo } from "./io.ts";
import { listing, reading, type CommonOptions, type PageOptions } from "./options.ts";
import { printBlock, printDebug, printFields, printJson, printMore, printTable } from "./print.ts";
import { renderDuration, localTime, shortTime } from "./text.ts";

interface ListOptions extends PageOptions {
  status?: string;
  session?: string;
  event?: string;
}

async function list(options: ListOptions, io: CliIo): Promise<void> {
  const { status, session: sessionKey, since, limit } = options;
  const answer = await connected(options, io, async (to) => {
    const eventId = options.event && (await resolveId(to, "events", options.event));
    const before = options.before && (await resolveId(to, "runs", options.before));
    return read(to.api.runs.$get({ query: { status, sessionKey, eventId, since, limit, before } }));
  });
  if (options.json) return printJson(io, answer);
  const { runs, next } = answer;
  const rows = runs.map((run) => [
    run.id,
    shortTime(run.createdAt, io.now()),
    run.status,
    renderDuration(run.startedAt, run.endedAt),
    run.agentId,
    run.sessionKey,
    run.delivery ?? "–",
    run.error ? `${run.error.code}: ${run.error.message}` : run.name,
  ]);
  printTable(io, ["RUN", "CREATED", "STATUS", "TOOK", "AGENT", "SESSION", "DELIVERY", "NAME OR ERROR"], rows);
  printMore(io, "rouse runs list", next);
}

function recipient(run: RunDetail): string | null {
  if (run.route?.status === "route") return `${run.route.route.channel} ${run.route.route.to}`;
  return run.route ? run.route.reason : null;
}

/** The limit that a run waits for. */
function waitsFor({ parked }: RunDetail): string | null {
  if (parked === null) return null;
  return `limits.${parked.limit} of ${parked.scope}${parked.until === null ? "" : `, until ${localTime(parked.until)}`}`;
}

/** What the provider said with its error, in one line. */
function renderVendorError({ error }: RunDetail): string | null {
  const { status, code, param, message } = error?.vendor ?? {};
  const head = [status, code, param && `(${param})`].filter((part) => part !== undefined).join(" ");
  return [head, message].filter(Boolean).join(": ") || null;
}

function printRun(run: RunDetail, io: CliIo): void {
  printFields(io, {
    run: run.id,
    status: run.status,
    "waits for": waitsFor(run),
    error: run.error ? `${run.error.code}: ${run.error.message}` : null,
    "provider said": renderVendorError(run),
    name: run.name,
    event: run.eventId,
    mapping: run.mapping,
    agent: run.agentId,
    session: `${run.origin} ${run.sessionKey}`,
    model: run.model,
    tokens: run.usage?.totalTokens,
    attempts: run.attempts,
    restarts: run.restarts === 0 ? null : run.restarts,
    delivery: run.delivery,
    "delivery id": run.deliveryId,
    trace: run.traceId,
    to: recipient(run),
    created: localTime(run.createdAt),
    took: renderDuration(run.startedAt, run.endedAt),
  });
  for (const warning of run.warnings) io.out(`warning: ${warning}\n`);
  if (run.instructions !== null) printBlock(io, "instructions", run.instructions);
  printBlock(io, "input", plainText(run.input));
  if (run.reply !== null) printBlock(io, "reply", run.reply);
  printDebug(io, run.debug);
}

async function show(id: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, async (to) => read(to.api.runs[":id"].$get(withId(await resolveId(to, "runs", id)))));
  if (options.json) return printJson(io, answer);
  const { run } = answer;
  printRun(run, io);
}

async function change(id: string, operation: "cancel" | "retry", options: CommonOptions, io: CliIo): Promise<void> {
  const { live, ...answer } = await connected(options, io, async (to) => ({
    live: to.live,
    ...(await read(to.api.runs[":id"][operation].$post(withId(await resolveId(to, "runs", id))))),
  }));
  if (options.json) return printJson(io, answer);
  const { run } = answer;
  io.out(`${run.id}  ${run.status}\n`);
  if (operation === "retry" && !live) io.out("no gateway runs just now: the run starts with the next `rouse start`\n");
}

export function register(program: Command, io: CliIo): void {
  const runs = program.command("runs").description("what agents did");
  listing(
    runs
      .command("list")
      .description("runs, newest first")
      .option("--status <status>", "parked, collecting, queued, running, succeeded, failed, timed_out or cancelled")
      .option("--session <key>", "of one session")
      .option("--event <id>", "of one event"),
    "rouse runs list --status failed --since 1d",
  ).action((options: ListOptions) => list(options, io));
  reading(runs.command("show <run>").description("one run with its input and reply"), "rouse runs show run_…").action(
    (id: string, options: CommonOptions) => show(id, options, io),
  );
  reading(runs.command("cancel <run>").description("stop a run, or take it out of the queue"), "rouse runs cancel run_…").action(
    (id: string, options: CommonOptions) => change(id, "cancel", options, io),
  );
  reading(runs.command("retry <run>").description("start a run again that failed, under its own id"), "rouse runs retry run_…").action(
    (id: string, options: CommonOptions) => change(id, "retry", options, io),
  );
}
