import { labelledText, markOutside, plural } from "../../core/text.ts";
import type {
  DeliveryView,
  RunDetail,
  RunView,
  StepView,
  ToolCallView,
} from "../../operate/records/views.ts";
import type { CliIo } from "../io.ts";
import { printBlock, printDebug, printLines, printRecord } from "../print.ts";
import { cell, localTime, renderCost, renderDuration } from "../text.ts";

function recipient(run: RunDetail): string | null {
  if (run.route?.status === "route") return `${run.route.route.channel} ${run.route.route.to}`;
  return run.route ? run.route.reason : null;
}

/** Says why a run waits, and until when. `renderTime` is that of the table or of the page. */
export function renderWaitsFor(
  { waitsFor }: Pick<RunView, "waitsFor">,
  renderTime: (iso: string) => string,
): string | null {
  if (!waitsFor) return null;
  return `${waitsFor.text}${waitsFor.until === null ? "" : `, until ${renderTime(waitsFor.until)}`}`;
}

/** Says how many events a run was made of, and by which config; null if it is no batch. */
function renderBatch({ collected, combinedBy }: RunDetail): string | null {
  if (collected === null) return null;
  const events = collected === 1 ? "1 event of a batch" : `${collected} events together`;
  return combinedBy === null ? events : `${events}, by config ${combinedBy}`;
}

function printHead(run: RunDetail, sent: DeliveryView | null, io: CliIo): void {
  printRecord(io, run, [
    ["run", ({ id }) => id],
    "status",
    ["waits for", renderWaitsFor],
    ["waits since", ({ waitsFor }) => waitsFor?.since],
    "error",
    ["provider said", ({ providerText }) => providerText],
    "name",
    "eventId",
    ["made of", renderBatch],
    "mapping",
    "agentId",
    ["session", ({ origin, sessionKey }) => [origin, sessionKey]],
    "model",
    ["tokens", ({ usage }) => usage?.totalTokens],
    [
      "cost",
      ({ usage }) => usage && renderCost(usage.costUsd, usage.costUsd === undefined ? 1 : 0),
    ],
    "attempts",
    ["restarts", ({ restarts }) => restarts || null],
    [
      "delivery",
      ({ delivery }) =>
        sent ? `${sent.status}, ${sent.channel} ${sent.to ?? ""} (${sent.id})` : delivery,
    ],
    ["delivery id", ({ deliveryId }) => (sent ? null : deliveryId)],
    ["not delivered", () => sent?.error],
    ["messages", () => sent?.messageIds],
    ["trace", ({ traceId }) => traceId],
    ["to", recipient],
    "createdAt",
    ["took", ({ startedAt, endedAt }) => renderDuration(startedAt, endedAt)],
  ]);
  for (const warning of run.warnings) io.out(`warning: ${warning}\n`);
}

/** Prints what a run was given. Behind the mappings that made it, the message of a batch alone. */
function printInput(run: RunDetail, isExplained: boolean, io: CliIo): void {
  const { instructions, input, collected, status } = run;
  if (!isExplained) {
    if (instructions !== null) printBlock(io, "instructions", instructions);
    printBlock(io, "input", labelledText(input));
  } else if (collected !== null && status !== "collecting")
    printBlock(io, "message of the events together", markOutside(input));
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
      : `[${part.mediaType}${part.filename === null ? "" : ` ${part.filename}`}, ${plural(part.bytes, "byte")}]`,
  );
  const cut = stored
    ? [
        `cut: the whole result has ${plural(stored.length, "character")} and is stored as ${stored.id}`,
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
function printStep(step: StepView, io: CliIo): void {
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

/** Prints a run with its input, steps and reply, and the delivery of the reply if it is known. */
export function printRun(
  {
    run,
    steps,
    delivery = null,
  }: { run: RunDetail; steps: readonly StepView[]; delivery?: DeliveryView | null },
  io: CliIo,
  { isExplained = false } = {},
): void {
  printHead(run, delivery, io);
  printInput(run, isExplained, io);
  for (const step of steps) printStep(step, io);
  const { failedAttempts, waits } = run;
  printLines(
    io,
    "waited",
    waits.map(
      (wait) =>
        `${localTime(wait.since)}  ${renderDuration(wait.since, wait.until)} for ${wait.text}`,
    ),
  );
  printLines(
    io,
    "model calls without an answer",
    failedAttempts.map((one) => `${localTime(one.at)}  failed: ${one.text}`),
  );
  if (run.reply !== null) printBlock(io, "reply", run.reply);
  printDebug(io, run.debug);
}
