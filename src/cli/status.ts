import type { Command } from "commander";
import type { ActivityView } from "../admin/watch-views.ts";
import type { Percentiles } from "../core/metrics.ts";
import { connected, read } from "./connect.ts";
import { renderSpark } from "./failures.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printFields, printJson, printTable } from "./print.ts";
import { localTime, shortTime } from "./text.ts";

const SHOWN_FAILURES = 5;

const milliseconds = (seconds: number): string =>
  seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;

const renderTimes = (times: Percentiles | null): string =>
  times
    ? `p50 ${milliseconds(times.p50)}, p95 ${milliseconds(times.p95)}, p99 ${milliseconds(times.p99)} (of the newest ${times.count})`
    : "none since the start";

function printHooks(io: CliIo, { hooks }: ActivityView): void {
  io.out(
    `\nhooks since ${localTime(hooks.times[0] ?? 0)}, each column ${hooks.stepSeconds / 60} min\n`,
  );
  const rows = Object.entries(hooks.outcomes).flatMap(([outcome, counts]) => {
    const total = counts.reduce((sum, count) => sum + count, 0);
    return total === 0 ? [] : [[outcome, String(total), renderSpark(counts)]];
  });
  if (rows.length === 0) io.out("none\n");
  else printTable(io, ["OUTCOME", "COUNT", "OVER TIME"], rows);
  if (!hooks.isComplete) io.out(`only the newest ${hooks.total} are counted\n`);
}

function describeWaiting({ waiting }: ActivityView, now: number): string {
  const { runs, deliveries, approvals, parked } = waiting;
  const held = parked.by.map(({ text, count, until }) => {
    const next = until === null ? "" : `, next at ${shortTime(until, now)}`;
    return `${count} parked for ${text}${next}`;
  });
  return [
    `${runs.count} turns`,
    `${deliveries.count} deliveries`,
    `${approvals} approvals`,
    ...held,
  ].join(", ");
}

async function showStatus(
  { since, ...options }: CommonOptions & { since: string },
  io: CliIo,
): Promise<void> {
  const { live, ...answer } = await connected(options, io, async ({ api, live: isLive }) => {
    const [{ status }, activity, { failures, total, lastDay }, { findings }] = await Promise.all([
      read(api.status.$get()),
      read(api.activity.$get({ query: { since } })),
      read(api.failures.$get({ query: { status: "open", limit: String(SHOWN_FAILURES) } })),
      read(api.findings.$get()),
    ]);
    return { live: isLive, status, activity, failures, failureGroups: total, lastDay, findings };
  });
  if (options.json) return printJson(io, { running: live, ...answer });
  const { status, activity, failures, failureGroups, lastDay, findings } = answer;
  const away = status.breakers.filter(({ state }) => state !== "closed").map(({ of }) => of);
  printFields(io, {
    gateway: live
      ? `running, version ${status.version}, since ${localTime(status.startedAt)}`
      : "no gateway runs: this is its store",
    config:
      status.reloadProblems.length > 0
        ? "the one on disk has problems; the one before it is in use"
        : (status.configFile ?? "the defaults"),
    away: away.join(", "),
    failures: lastDay,
    waiting: describeWaiting(activity, io.now()),
    answers: renderTimes(activity.latencies.answers),
    runs: renderTimes(activity.latencies.runs),
  });
  printHooks(io, activity);
  if (failures.length > 0) {
    io.out("\n");
    const rows = failures.map((one) => [
      one.id,
      String(one.count),
      shortTime(one.lastSeen, io.now()),
      one.title,
    ]);
    printTable(io, ["FAILURE", "COUNT", "LAST", "CAUSE"], rows);
    if (failureGroups > failures.length)
      io.out(`${failureGroups - failures.length} more: rouse failures list --status open\n`);
  }
  if (findings.length > 0) {
    io.out("\n");
    printTable(
      io,
      ["FROM", "PATH", "FOUND"],
      findings.map(({ from, path, message }) => [from, path ?? "–", message]),
    );
  }
}

export function register(program: Command, io: CliIo): void {
  reading(
    program
      .command("status")
      .description("how the gateway does: hooks over time, latencies, what waits, what fails")
      .option("--since <time>", 'count hooks since then: an age such as "24h", or a date', "1h"),
    "rouse status --since 24h",
  ).action((options: CommonOptions & { since: string }) => showStatus(options, io));
}
