import type { Command } from "commander";
import type {
  DecidingConfigView,
  EventEvaluation,
  ExplainedRun,
  Explanation,
} from "../admin/explain.ts";
import { connected, read, withId } from "./connect.ts";
import { resolveId } from "./ids.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printBlock, printFields, printJson } from "./print.ts";
import { markOutside, printTestedHook } from "./print-tested-hook.ts";
import { printStep, renderWaitsFor } from "./runs.ts";
import { bytes, localTime, renderDuration } from "./text.ts";

/** Names the config that decided, and the one that is in use today. */
function renderConfig({
  number,
  isToday,
  firstUsedAt,
  lastUsedAt,
  today,
  todaySince,
}: DecidingConfigView): string {
  const name = number === null ? "a config that was not recorded" : `config ${number}`;
  if (isToday)
    return firstUsedAt === null ? name : `${name}, in use since ${localTime(firstUsedAt)}`;
  const used =
    firstUsedAt === null || lastUsedAt === null
      ? ""
      : `, in use from ${localTime(firstUsedAt)} to at least ${localTime(lastUsedAt)}`;
  const current = today === null ? "a config without a number" : `config ${today}`;
  return `${name}${used}; ${todaySince === null ? `today's is ${current}` : `${current} has been in use since ${localTime(todaySince)}`}`;
}

function printHead({ event, note, evaluation, config }: Explanation, io: CliIo): void {
  printFields(io, {
    event: event.id,
    received: localTime(event.receivedAt),
    path: event.path,
    "came in by": event.credential,
    outcome: event.outcome,
    reason: event.reason,
    mapping: event.mapping,
    "duplicate of": event.duplicateOf,
    "replay of": event.replayOf,
    body: event.bodyBytes === null ? "no longer kept" : bytes(event.bodyBytes),
    "decided by": config && renderConfig(config),
    note: config?.note,
    [evaluation ? "differs" : "mappings"]: note,
  });
}

/** Says how many events a run was made of, and by which config; null if it is no batch. */
function renderBatch({ collected, combinedBy }: ExplainedRun["run"]): string | null {
  if (collected === null) return null;
  const events = collected === 1 ? "1 event of a batch" : `${collected} events together`;
  return combinedBy === null ? events : `${events}, by config ${combinedBy}`;
}

function printRun({ run, steps, delivery }: ExplainedRun, io: CliIo): void {
  io.out("\n");
  printFields(io, {
    run: run.id,
    status: run.status,
    "waits for": renderWaitsFor(run, localTime),
    error: run.error ? `${run.error.code}: ${run.error.message}` : null,
    // The mapping above has seen this event alone.
    "made of": renderBatch(run),
    session: `${run.origin} ${run.sessionKey}`,
    model: run.model,
    tokens: run.usage?.totalTokens,
    took: renderDuration(run.startedAt, run.endedAt),
    delivery:
      delivery && `${delivery.status}, ${delivery.channel} ${delivery.to ?? ""} (${delivery.id})`,
    "not delivered": delivery?.error ? `${delivery.error.code}: ${delivery.error.message}` : null,
    messages: delivery?.messageIds.join(", "),
  });
  if (run.collected !== null && run.status !== "collecting")
    printBlock(io, "message of the events together", markOutside(run.input));
  for (const step of steps) printStep(step, io);
  if (run.reply !== null) printBlock(io, "reply", run.reply);
}

function printExplanation(explanation: Explanation, io: CliIo): void {
  printHead(explanation, io);
  if (explanation.evaluation) {
    io.out("\n");
    printTestedHook(explanation.evaluation, io);
  }
  for (const run of explanation.runs) printRun(run, io);
  if (explanation.now) printNow(explanation.now, explanation, io);
}

/** Prints what today's config makes of the event, below a line that says so. */
function printNow({ evaluation, note }: EventEvaluation, { config }: Explanation, io: CliIo): void {
  const name = typeof config?.today === "number" ? `config ${config.today}` : "the config";
  io.out(`\n── today, by ${name}: nothing of this was done ──\n`);
  printFields(io, {
    [evaluation ? "differs" : "mappings"]:
      note ?? (evaluation ? "no: the same outcome and mapping" : null),
  });
  if (!evaluation) return;
  io.out("\n");
  printTestedHook(evaluation, io);
}

async function explain(
  id: string,
  { now, ...options }: CommonOptions & { now?: boolean },
  io: CliIo,
): Promise<void> {
  const query = now ? { now: "1" as const } : {};
  const answer = await connected(options, io, async (to) =>
    read(
      to.api.events[":id"].explain.$get({ ...withId(await resolveId(to, "events", id)), query }),
    ),
  );
  if (options.json) return printJson(io, answer);
  printExplanation(answer.explanation, io);
}

export function register(program: Command, io: CliIo): void {
  reading(
    program
      .command("explain <event>")
      .description(
        "why a hook did what it did, by the config that decided: each mapping with its conditions, what was rendered, the runs",
      )
      .option("--now", "add what the mappings of today make of it"),
    "rouse explain latest",
    "rouse explain evt_… --now",
    "rouse explain evt_… --json | jq '.explanation.evaluation.traces[].verdict'",
  ).action((id: string, options: CommonOptions & { now?: boolean }) => explain(id, options, io));
}
