import type { Command } from "commander";
import { labelledText } from "../core/text.ts";
import type { RunDetail, RunView, StepView, ToolCallView } from "../admin/views.ts";
import { RETRIED_RUNS } from "../admin/bulk-retry.ts";
import { connected, read, withId, type GatewayConnection } from "./connect.ts";
import { usage } from "./failure.ts";
import { resolveId } from "./ids.ts";
import type { CliIo } from "./io.ts";
import { listing, reading, type CommonOptions, type PageOptions } from "./options.ts";
import { printBlock, printDebug, printFields, printJson, printMore, printTable } from "./print.ts";
import { checkOne, readRetry, retryMany, retryingMany, type RetryOptions } from "./retry-many.ts";
import { readListPage } from "./search.ts";
import { cell, localTime, renderDuration, shortTime } from "./text.ts";
import { renderCost } from "./usage.ts";

interface ListOptions extends PageOptions {
  status?: string;
  kind?: string;
  session?: string;
  event?: string;
  endedSince?: string;
  endedUntil?: string;
}

async function list(options: ListOptions, io: CliIo): Promise<void> {
  const { status, kind, session: sessionKey, since, limit, endedSince, endedUntil } = options;
  const answer = await connected(options, io, async (to) => {
    const eventId = options.event && (await resolveId(to, "events", options.event));
    const before = options.before && (await resolveId(to, "runs", options.before));
    return readListPage(
      io,
      { before, limit },
      (page) =>
        read(
          to.api.runs.$get({
            query: { status, kind, sessionKey, eventId, since, endedSince, endedUntil, ...page },
          }),
        ),
      ({ runs }) => runs,
    );
  });
  if (options.json) return printJson(io, answer);
  const { runs } = answer;
  const rows = runs.map((run) => [
    run.id,
    shortTime(run.createdAt, io.now()),
    run.status,
    renderDuration(run.startedAt, run.endedAt),
    run.agentId,
    run.sessionKey,
    run.delivery ?? "–",
    [
      run.error ? `${run.error.code}: ${run.error.message}` : run.name,
      renderWaitsFor(run, (iso) => shortTime(iso, io.now())),
    ]
      .filter((text) => text !== null)
      .join("; waits for "),
  ]);
  printTable(
    io,
    ["RUN", "CREATED", "STATUS", "TOOK", "AGENT", "SESSION", "DELIVERY", "NAME OR ERROR"],
    rows,
  );
  printMore(io, "rouse runs list", answer);
}

function recipient(run: RunDetail): string | null {
  if (run.route?.status === "route") return `${run.route.route.channel} ${run.route.route.to}`;
  return run.route ? run.route.reason : null;
}

/** What a run waits for, and until when. `renderTime` is that of the table or of the page. */
export function renderWaitsFor(
  { waitsFor }: Pick<RunView, "waitsFor">,
  renderTime: (iso: string) => string,
): string | null {
  if (!waitsFor) return null;
  return `${waitsFor.text}${waitsFor.until === null ? "" : `, until ${renderTime(waitsFor.until)}`}`;
}

function printRun(run: RunDetail, io: CliIo): void {
  printFields(io, {
    run: run.id,
    status: run.status,
    "waits for": renderWaitsFor(run, localTime),
    "waits since": run.waiting && localTime(run.waiting.since),
    error: run.error ? `${run.error.code}: ${run.error.message}` : null,
    "provider said": run.providerText,
    name: run.name,
    event: run.eventId,
    mapping: run.mapping,
    agent: run.agentId,
    session: `${run.origin} ${run.sessionKey}`,
    model: run.model,
    tokens: run.usage?.totalTokens,
    cost: run.usage ? renderCost(run.usage.costUsd, run.usage.costUsd === undefined ? 1 : 0) : null,
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
  printBlock(io, "input", labelledText(run.input));
}

/** Renders what a tool has answered, in lines. */
export function renderOutput({
  output,
  stored = null,
}: Pick<ToolCallView, "output"> & Partial<ToolCallView>): string[] {
  if (!output) return [];
  const parts = output.parts.map((part) =>
    part.type === "text"
      ? part.text
      : `[${part.mediaType}${part.filename === null ? "" : ` ${part.filename}`}, ${part.bytes.toLocaleString("en")} bytes]`,
  );
  const cut = stored
    ? [
        `cut: the whole result has ${stored.length.toLocaleString("en")} characters and is stored as ${stored.id}`,
      ]
    : [];
  return [`${output.isError ? "error" : "result"}: ${parts.join("\n")}`, ...cut];
}

function renderApproval({
  id,
  code,
  why,
  askedAt,
  expiresAt,
  decision,
}: ToolCallView["approvals"][number]): string {
  const asked = `approval ${code} (${id}), asked ${localTime(askedAt)}: ${why}`;
  if (decision === null) return `${asked}; open until ${localTime(expiresAt)}`;
  return `${asked}; ${decision.verdict} by ${decision.by}, ${localTime(decision.at)}${decision.note === null ? "" : `: ${decision.note}`}`;
}

function renderCall(call: ToolCallView): string {
  const took = call.startedAt === null ? "" : `, ${renderDuration(call.startedAt, call.endedAt)}`;
  const lines = [
    `arguments: ${JSON.stringify(call.input)}`,
    ...call.approvals.map(renderApproval),
    ...renderOutput(call),
  ];
  return [
    `call ${call.tool}: ${call.state}${took} (${call.id})`,
    ...lines.flatMap((text) => text.split("\n")).map((line) => `  ${line}`),
  ].join("\n");
}

/** Prints a step of a run with its tool calls. */
export function printStep(step: StepView, io: CliIo): void {
  const facts = [
    step.model,
    renderDuration(step.startedAt, step.endedAt),
    step.usageText,
    step.finish,
  ].filter((fact) => fact !== "");
  const failed = step.failedAttempts.map(({ text }) => `failed: ${text}`);
  const fallback =
    step.insteadOf === null ? [] : [`${step.model} answered instead of ${step.insteadOf}`];
  const said = [
    step.thinking === null ? [] : [`thinking: ${step.thinking}`],
    step.text === null ? [] : [step.text],
  ].flat();
  printBlock(
    io,
    `step ${step.index + 1}: ${cell(facts.join(", "))}`,
    [
      ...(step.tools === null ? [] : [step.tools]),
      ...failed,
      ...fallback,
      ...said,
      ...step.calls.map(renderCall),
    ].join("\n"),
  );
}

async function show(id: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, async (to) => {
    const run = withId(await resolveId(to, "runs", id));
    const [detail, { steps }] = await Promise.all([
      read(to.api.runs[":id"].$get(run)),
      read(to.api.runs[":id"].steps.$get(run)),
    ]);
    return { ...detail, steps };
  });
  if (options.json) return printJson(io, answer);
  printRun(answer.run, io);
  for (const step of answer.steps) printStep(step, io);
  const { failedAttempts, waits } = answer.run;
  const waited = waits.map(
    (wait) =>
      `${localTime(wait.since)}  ${renderDuration(wait.since, wait.until)} for ${wait.text}`,
  );
  if (waited.length > 0) printBlock(io, "waited", waited.join("\n"));
  if (failedAttempts.length > 0)
    printBlock(
      io,
      "model calls without an answer",
      failedAttempts.map((one) => `${localTime(one.at)}  failed: ${one.text}`).join("\n"),
    );
  if (answer.run.reply !== null) printBlock(io, "reply", answer.run.reply);
  printDebug(io, answer.run.debug);
}

async function change(
  id: string,
  operation: "cancel" | "retry",
  options: CommonOptions,
  io: CliIo,
): Promise<void> {
  const { live, ...answer } = await connected(options, io, async (to) => ({
    live: to.live,
    ...(await read(to.api.runs[":id"][operation].$post(withId(await resolveId(to, "runs", id))))),
  }));
  if (options.json) return printJson(io, answer);
  const { run } = answer;
  io.out(`${run.id}  ${run.status}\n`);
  if (operation === "retry" && !live)
    io.out("no gateway runs just now: the run starts with the next `rouse start`\n");
}

interface RetryRuns extends RetryOptions {
  failed?: boolean;
  status?: string;
  session?: string;
  event?: string;
  mapping?: string;
}

const CHOOSING = [
  "failed",
  "status",
  "session",
  "event",
  "mapping",
  "since",
  "until",
  "limit",
] as const;

async function retry(id: string | undefined, options: RetryRuns, io: CliIo): Promise<void> {
  if (id !== undefined) {
    checkOne(options, CHOOSING);
    return change(id, "retry", options, io);
  }
  if (CHOOSING.every((name) => options[name] === undefined))
    throw usage(
      "name one run, or choose several with --failed, --status, --session, --event, --mapping or --since",
    );
  if (options.failed && options.status !== undefined) throw usage("use --failed or --status");
  const { session: sessionKey, mapping } = options;
  const status = RETRIED_RUNS.find((known) => known === options.status);
  if (options.status !== undefined && status === undefined)
    throw usage(`--status ${options.status}: write ${RETRIED_RUNS.join(", ")}`);
  const chosen = { status, sessionKey, mapping, ...readRetry(options, io) };
  const ask = async (to: GatewayConnection) => {
    const eventId = options.event && (await resolveId(to, "events", options.event));
    return to.api.runs.retry.$post({ json: { ...chosen, eventId } });
  };
  await retryMany(
    options,
    io,
    ask,
    "no gateway runs just now: the runs start with the next `rouse start`\n",
  );
}

function registerRetry(runs: Command, io: CliIo): void {
  const command = runs
    .command("retry [run]")
    .description("start a run again that failed, under its own id; or many, the oldest first")
    .option("--failed", "all that failed or took too long")
    .option("--status <status>", `all of this status: ${RETRIED_RUNS.join(", ")}`)
    .option("--session <key>", "only those of one session")
    .option("--event <id>", "only those of one event")
    .option("--mapping <id>", "only those of this mapping");
  reading(
    retryingMany(command),
    "rouse runs retry run_…",
    "rouse runs retry --failed --since 1d --dry-run",
  ).action((id: string | undefined, options: RetryRuns) => retry(id, options, io));
}

export function register(program: Command, io: CliIo): void {
  const runs = program.command("runs").description("what agents did");
  listing(
    runs
      .command("list")
      .description("runs, newest first")
      .option(
        "--status <status>",
        "parked, collecting, queued, running, waiting, succeeded, failed, timed_out or cancelled",
      )
      .option(
        "--kind <kind>",
        "hook, heartbeat, schedule, channel, api, or all; a list without this or another filter than the time leaves heartbeats out",
      )
      .option("--session <key>", "of one session")
      .option("--event <id>", "of one event")
      .option("--ended-since <time>", "that ended since then; the one that ended last comes first")
      .option("--ended-until <time>", "that ended before"),
    "rouse runs list --status failed --since 1d",
    "rouse runs list --kind heartbeat",
    "rouse runs list --ended-since 2026-01-30 --ended-until 2026-01-31",
  ).action((options: ListOptions) => list(options, io));
  reading(
    runs.command("show <run>").description("one run with its input, steps and reply"),
    "rouse runs show run_…",
  ).action((id: string, options: CommonOptions) => show(id, options, io));
  reading(
    runs.command("cancel <run>").description("stop a run, or take it out of the queue"),
    "rouse runs cancel run_…",
  ).action((id: string, options: CommonOptions) => change(id, "cancel", options, io));
  registerRetry(runs, io);
}
