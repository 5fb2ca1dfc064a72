import type { WhatIfExample, WhatIfGroup, WhatIfReport } from "../../operate/what-if/what-if.ts";
import { plural } from "../../core/text.ts";
import type { DiffPart } from "../../operate/edits/word-diff.ts";
import type { CliIo } from "../io.ts";
import { cell, fit, localTime } from "../text.ts";

const MAX_SAME = 60;
const MAX_VALUE = 200;

const count = (value: number): string => Math.round(value).toLocaleString("en-US");

function renderPeriod(ms: number): string {
  const [days, hours, minutes] = [ms / 86_400_000, ms / 3_600_000, ms / 60_000];
  const value =
    days >= 1 ? Math.round(days * 10) / 10 : Math.max(1, Math.round(hours >= 1 ? hours : minutes));
  return plural(value, days >= 1 ? "day" : hours >= 1 ? "hour" : "minute");
}

/** `10,000 events of 7 days: 14 change. 9 would run that did not, 5 would not run.` */
function renderSum(report: WhatIfReport): string {
  const { events, periodMs, changed, wouldRun, wouldNotRun } = report;
  const period = events === 0 ? "" : ` of ${renderPeriod(periodMs)}`;
  const parts = [
    ...(wouldRun > 0 ? [`${count(wouldRun)} would run that did not`] : []),
    ...(wouldNotRun > 0 ? [`${count(wouldNotRun)} would not run`] : []),
  ];
  const sum = `${plural(events, "event")}${period}: ${changed === 0 ? "none changes" : plural(changed, "changes", "change")}.`;
  return parts.length === 0 ? sum : `${sum} ${parts.join(", ")}.`;
}

/** Shows the ends of what stays the same, and all that does not: `[-old-]` and `{+new+}`. */
export function renderDiff(parts: readonly DiffPart[]): string {
  const pieces = parts.map(({ kind, text }) => {
    const shown = text.replaceAll(/\r?\n/g, "↵");
    if (kind === "added") return `{+${shown}+}`;
    if (kind === "removed") return `[-${shown}-]`;
    return shown.length <= 2 * MAX_SAME
      ? shown
      : `${shown.slice(0, MAX_SAME)} … ${shown.slice(-MAX_SAME)}`;
  });
  return cell(pieces.join(""));
}

/** Shows a value of a difference on one line. */
export function showValue(value: unknown): string {
  if (value === null || value === undefined) return "none";
  return cell(typeof value === "string" ? value : JSON.stringify(value));
}

/** One side of a change: an outcome, or an action with its fields. */
function renderSide(values: Record<string, unknown>): string {
  const { outcome, mapping, reason, missing, message, ...fields } = values;
  const by = mapping === null || mapping === undefined ? "" : ` by ${showValue(mapping)}`;
  if (outcome !== undefined) {
    const holes = Array.isArray(missing) ? `; missing: ${showValue(missing.join(", "))}` : "";
    return `${showValue(outcome)}${by}${reason === null || reason === undefined ? "" : `: ${showValue(reason)}`}${holes}`;
  }
  const shown = ["agent", "session", "channel", "to", "model"].flatMap((name) =>
    fields[name] === undefined ? [] : [`${name} ${showValue(fields[name])}`],
  );
  return `${showValue(fields["action"])}${by} (${shown.join(", ")}): ${showValue(message)}`;
}

/** Prints an event of a group with what it was and what it would be. */
function printExample(
  { kind }: Pick<WhatIfGroup, "kind">,
  example: WhatIfExample,
  io: CliIo,
): void {
  const { eventId, receivedAt, path, before, after, diff } = example;
  io.out(`  ${cell(eventId)}  ${localTime(receivedAt)}  ${cell(path)}\n`);
  const line = (name: string, text: string): void =>
    io.out(`    ${name.padEnd(8)}  ${fit(text, 4 * MAX_VALUE)}\n`);
  if ("outcome" in before || "outcome" in after || kind === "other-mapping") {
    line("was", renderSide(before));
    line("would be", renderSide(after));
    return;
  }
  if (diff) line("message", renderDiff(diff));
  for (const name of Object.keys(after)) {
    if (diff && (name === "message" || name === "marked")) continue;
    line(
      name,
      `${fit(showValue(before[name]), MAX_VALUE)} → ${fit(showValue(after[name]), MAX_VALUE)}`,
    );
  }
}

/** Prints the groups with their examples. */
function printGroups({ groups }: WhatIfReport, io: CliIo): void {
  for (const group of groups) {
    const { text, mapping, examples } = group;
    io.out(
      `\n${text}  ${mapping === null ? "by no mapping" : cell(mapping)}  ${count(group.count)}\n`,
    );
    for (const example of examples) printExample(group, example, io);
  }
}

/** Prints what becomes of the events, what could not be compared, and what is not simulated. */
function printNotes(report: WhatIfReport, io: CliIo): void {
  const { outcomes, skippedFor } = report;
  io.out("\n");
  const counts = Object.entries(outcomes).map(([outcome, events]) => `${count(events)} ${outcome}`);
  if (counts.length > 0) io.out(`outcomes: ${counts.join(", ")}\n`);
  for (const [reason, events] of Object.entries(skippedFor))
    io.out(`not compared: ${count(events)} (${cell(reason)})\n`);
  io.out("not simulated: duplicates, limits and windows of `coalesce`\n");
}

/** Prints a whole report. */
export function printReport(report: WhatIfReport, io: CliIo): void {
  io.out(`${renderSum(report)}\n`);
  printGroups(report, io);
  printNotes(report, io);
}
