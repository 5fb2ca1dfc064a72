import type { Command } from "commander";
import type { ExplainedRun, Explanation } from "../admin/explain.ts";
import { connected, read, withId } from "./connect.ts";
import { resolveId } from "./ids.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printBlock, printFields, printJson } from "./print.ts";
import { printTestedHook } from "./print-tested-hook.ts";
import { printStep, renderWait } from "./runs.ts";
import { bytes, localTime, renderDuration } from "./text.ts";

function printHead({ event, note, evaluation }: Explanation, io: CliIo): void {
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
    [evaluation ? "now differs" : "mappings"]: note,
  });
}

function printRun({ run, steps, delivery }: ExplainedRun, io: CliIo): void {
  io.out("\n");
  printFields(io, {
    run: run.id,
    status: run.status,
    "waits for": renderWait(run, localTime),
    error: run.error ? `${run.error.code}: ${run.error.message}` : null,
    session: `${run.origin} ${run.sessionKey}`,
    model: run.model,
    tokens: run.usage?.totalTokens,
    took: renderDuration(run.startedAt, run.endedAt),
    delivery: delivery && `${delivery.status}, ${delivery.channel} ${delivery.to ?? ""} (${delivery.id})`,
    "not delivered": delivery?.error ? `${delivery.error.code}: ${delivery.error.message}` : null,
    messages: delivery?.messageIds.join(", "),
  });
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
}

async function explain(id: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, async (to) =>
    read(to.api.events[":id"].explain.$get(withId(await resolveId(to, "events", id)))),
  );
  if (options.json) return printJson(io, answer);
  printExplanation(answer.explanation, io);
}

export function register(program: Command, io: CliIo): void {
  reading(
    program
      .command("explain <event>")
      .description("why a hook did what it did: each mapping with its conditions, what was rendered, and what the runs did"),
    "rouse explain latest",
    "rouse explain evt_… --json | jq '.explanation.evaluation.traces[].verdict'",
  ).action((id: string, options: CommonOptions) => explain(id, options, io));
}
