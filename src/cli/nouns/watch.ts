import { secretFile } from "../../config/state.ts";
import type { Percentiles } from "../../core/metrics.ts";
import { readGateway } from "../../store/lock.ts";
import type { EventView } from "../../operate/records/views.ts";
import type { ActivityView } from "../../operate/watch/activity.ts";
import { asking, LIMIT_OPTION, listing, paging, type Noun } from "../command.ts";
import { read, withId } from "../gateway/connect.ts";
import { resolveId } from "../ids.ts";
import { OUTCOME_OPTION, readOne } from "../options.ts";
import { printFields, printRows } from "../print.ts";
import { replay } from "./replay.ts";
import { follow } from "./follow.ts";
import { localTime, shortTime } from "../text.ts";
import { plural } from "../../core/text.ts";

const SHOWN_FAILURES = 5;

const milliseconds = (seconds: number): string =>
  seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;

const renderTimes = (times: Percentiles | null): string =>
  times
    ? `p50 ${milliseconds(times.p50)}, p95 ${milliseconds(times.p95)}, p99 ${milliseconds(times.p99)} (of the newest ${times.count})`
    : "none since the start";

/** The outcomes of hooks: `12 accepted, 2 unmatched since 2026-01-31 08:00:00`. */
function describeHooks({ hooks }: ActivityView): string {
  const counts = Object.entries(hooks.outcomes)
    .map(([outcome, each]) => ({ outcome, count: each.reduce((sum, n) => sum + n, 0) }))
    .filter(({ count }) => count > 0)
    .map(({ outcome, count }) => `${count} ${outcome}`);
  const what = counts.length === 0 ? "none" : counts.join(", ");
  const part = hooks.isComplete ? "" : `; only the newest ${hooks.total} are counted`;
  return `${what} since ${localTime(hooks.times[0] ?? 0)}${part}`;
}

function describeWaiting({ waiting }: ActivityView, now: number): string {
  const { runs, deliveries, approvals, parked } = waiting;
  const held = parked.by.map(({ text, count, until }) => {
    const next = until === null ? "" : `, next at ${shortTime(until, now)}`;
    return `${count} parked for ${text}${next}`;
  });
  return [
    plural(runs.count, "turn"),
    plural(deliveries.count, "delivery", "deliveries"),
    plural(approvals, "approval"),
    ...held,
  ].join(", ");
}

/** The address of the operator's page, and the file of the token that it asks for; null if no gateway runs. */
function findConsole(stateDir: string): { address: string; tokenFile: string } | null {
  const { adminUrl } = readGateway(stateDir) ?? {};
  if (adminUrl === undefined) return null;
  return { address: `${adminUrl}/console`, tokenFile: secretFile(stateDir, "gateway-token") };
}

export const statusCommand = asking({
  usage: "status",
  about: "how the gateway does: hooks, latencies, what waits, what fails; where the console is",
  examples: ["rouse status --since 24h"],
  options: {
    "--since <time>": {
      about: 'count hooks since then: an age such as "24h", or a date',
      default: "1h",
    },
  },
  async ask({ api, live, stateDir }, { since }) {
    const limit = String(SHOWN_FAILURES);
    const [{ status: gateway }, activity, { failures, total, lastDay }, { findings }] =
      await Promise.all([
        read(api.status.$get()),
        read(api.activity.$get({ query: { since } })),
        read(api.failures.$get({ query: { status: "open", limit } })),
        read(api.findings.$get()),
      ]);
    return {
      running: live,
      console: findConsole(stateDir),
      status: gateway,
      activity,
      failures,
      failureGroups: total,
      lastDay,
      findings,
    };
  },
  print(answer, io) {
    const { running, console: page, status: gateway, activity, failures, findings } = answer;
    const away = gateway.breakers.filter(({ state }) => state !== "closed").map(({ of }) => of);
    printFields(io, {
      gateway: running
        ? `running, version ${gateway.version}, since ${localTime(gateway.startedAt)}`
        : "no gateway runs: this is its store",
      config:
        gateway.reloadProblems.length > 0
          ? "the one on disk has problems; the one before it is in use"
          : (gateway.configFile ?? "the defaults"),
      console: page?.address,
      "gateway token": page && `${page.tokenFile}, unless the config has gateway.token`,
      hooks: describeHooks(activity),
      away: away.join(", "),
      failures: answer.lastDay,
      waiting: describeWaiting(activity, io.now()),
      answers: renderTimes(activity.latencies.answers),
      runs: renderTimes(activity.latencies.runs),
    });
    if (failures.length > 0) {
      io.out("\n");
      printRows(io, ["id", "count", "lastSeen", "title"], failures);
      const more = answer.failureGroups - failures.length;
      if (more > 0) io.out(`${more} more: rouse failures --status open\n`);
    }
    if (findings.length > 0) {
      io.out("\n");
      printRows(io, ["from", "path", "message"], findings);
    }
  },
});

/** Returns the reason of an event, or what came of it. */
const describeOutcome = ({ reason, text, actions }: EventView): string =>
  reason === null ? actions.map(({ id }) => id).join(" ") : text;

const eventsList = paging({
  noun: "events",
  ids: "events",
  about: "events, newest first",
  examples: [
    "rouse events --outcome unmatched --since 2h",
    "rouse events --path shop --search 'data.total:240'",
    "rouse events --failed --json | jq -r '.events[].id'",
  ],
  options: {
    ...OUTCOME_OPTION,
    "--path <path>": "the hook's path, such as shop",
    "--mapping <id>": "the mapping that took it",
    "--failed": "those with a run that failed",
    "--search <text>":
      "words of the id, path, mapping, reason or a body that is kept, and field:value: path, mapping and outcome of the event, any other name of the body",
  },
  ask({ api }, page, { failed, outcome, path, mapping, search }) {
    const query = {
      outcome,
      path,
      mapping,
      search,
      failed: failed ? ("1" as const) : undefined,
      ...page,
    };
    return read(api.events.$get({ query }));
  },
  rows: ({ events: found }) => found,
  columns: ["id", "receivedAt", "path", "outcome", "mapping", ["reason or work", describeOutcome]],
});

const eventsRefused = listing({
  about: "rejected requests (authentication failed), newest first, since the gateway's start",
  examples: ["rouse events --refused"],
  options: LIMIT_OPTION,
  ask: ({ api }, { limit }) => read(api.refusals.$get({ query: { limit } })),
  rows: ({ refusals }) => refusals,
  none: "no rejected requests",
  columns: ["at", "address", "path", "reason"],
  after(_, io) {
    if (!io.live) io.err("no gateway runs: rejected requests are kept in its memory only\n");
  },
});

const eventsSet = asking({
  usage: "set <event>",
  about: "discard an event that failed and is not needed",
  examples: ['rouse events set evt_… --discard "the order was placed again"'],
  options: { "--discard <reason>": "leave it out of doctor and of bulk replays, and note why" },
  async ask(to, given, name) {
    readOne(given, ["discard"]);
    const { discard: reason = "" } = given;
    const id = await resolveId(to, "events", name);
    return read(to.api.events[":id"].discard.$post({ ...withId(id), json: { reason } }));
  },
  print: ({ event }, io) => io.out(`${event.id}  discarded\n`),
});

export const eventsCommand: Noun = {
  list: eventsList,
  views: { "--refused": eventsRefused, "--follow": follow },
  commands: [eventsSet, replay],
};

export const doctorCommand = asking({
  usage: "doctor",
  about: "check for common problems; exit code 1 if a check fails",
  examples: ["rouse doctor"],
  ask: async ({ api, live, stateDir }) => ({
    running: live,
    stateDir,
    ...(await read(api.doctor.$get())),
  }),
  isFailure: ({ checks }) => checks.some((check) => check.status === "fail"),
  print({ running, stateDir, checks }, io) {
    io.out(
      running
        ? `a gateway runs on ${stateDir}\n\n`
        : `no gateway runs on ${stateDir}: looked at its store and config\n\n`,
    );
    printRows(
      io,
      [
        ["", (check) => (check.status === "ok" ? "ok" : check.status.toUpperCase())],
        "id",
        "message",
      ],
      checks,
      // The last column is where people read what to change.
      { isWhole: true },
    );
  },
});
