import { choosing, createRetryFilters, readRetryStatus } from "./bulk.ts";
import { RETRIED_DELIVERIES, RETRIED_RUNS } from "../../operate/records/bulk.ts";
import type { SessionDetail, SessionName } from "../../operate/records/sessions.ts";
import { labelledText, plainText, plural } from "../../core/text.ts";
import { USAGE_KEYS, type UsageSum } from "../../store/types.ts";
import { asking, LIMIT_OPTION, paging, type Noun } from "../command.ts";
import { read, withId } from "../gateway/connect.ts";
import { resolveId } from "../ids.ts";
import type { CliIo } from "../io.ts";
import { ownOptions } from "../options.ts";
import { printRun, renderWaitsFor } from "./print-run.ts";
import { printBlock, printDetail, printRecord, printRows, type RecordColumn } from "../print.ts";
import { member } from "../settings.ts";
import { cell, localTime, renderCost, renderDuration } from "../text.ts";

const renderError = (error: { code: string; message: string } | null): string | null =>
  error && `${error.code}: ${error.message}`;

const runsList = paging({
  noun: "runs",
  ids: "runs",
  about: "runs, newest first",
  examples: [
    "rouse runs --status failed --since 1d",
    "rouse runs --kind heartbeat",
    "rouse runs --ended-since 2026-01-30 --ended-until 2026-01-31",
  ],
  options: {
    "--status <status>":
      "parked, collecting, queued, running, waiting, succeeded, failed, timed_out or cancelled",
    "--kind <kind>":
      "hook, heartbeat, schedule, channel, api, or all; a list without this or another filter than the time leaves heartbeats out",
    "--session <key>": "of one session",
    "--event <id>": "of one event",
    "--ended-since <time>": "that ended since then; the one that ended last comes first",
    "--ended-until <time>": "that ended before",
  },
  async ask(to, page, { status, kind, session: sessionKey, event, endedSince, endedUntil }) {
    const eventId = event && (await resolveId(to, "events", event));
    const query = { status, kind, sessionKey, eventId, endedSince, endedUntil, ...page };
    return read(to.api.runs.$get({ query }));
  },
  rows: ({ runs: found }) => found,
  columns: [
    "id",
    "createdAt",
    "status",
    ["took", ({ startedAt, endedAt }) => renderDuration(startedAt, endedAt)],
    "agentId",
    "sessionKey",
    "delivery",
    [
      "name or error",
      (run, time) =>
        [renderError(run.error) ?? run.name, renderWaitsFor(run, time)]
          .filter((text) => text !== null)
          .join("; waits for "),
    ],
  ],
});

const runsShow = asking({
  usage: "<run>",
  about: "one run with its input, steps and reply",
  examples: ["rouse runs run_…"],
  async ask(to, _, name) {
    const run = withId(await resolveId(to, "runs", name));
    const [detail, { steps }] = await Promise.all([
      read(to.api.runs[":id"].$get(run)),
      read(to.api.runs[":id"].steps.$get(run)),
    ]);
    return { ...detail, steps };
  },
  print: (shown, io) => printRun(shown, io),
});

const runsCancel = asking({
  usage: "cancel <run>",
  about: "stop a run, or take it out of the queue",
  examples: ["rouse runs cancel run_…"],
  ask: async (to, _, name) =>
    read(to.api.runs[":id"].cancel.$post(withId(await resolveId(to, "runs", name)))),
  print: ({ run }, io) => io.out(`${run.id}  ${run.status}\n`),
});

const RETRY = { done: "retried", label: "retrying" };

const runsRetry = choosing({
  usage: "retry [run...]",
  kind: "runs",
  about: "start a run again that failed, under its own id; or many, the oldest first",
  examples: ["rouse runs retry run_…", "rouse runs retry --failed --since 1d --dry-run"],
  filters: {
    ...createRetryFilters(RETRIED_RUNS),
    "--session <key>": "only those of one session",
    "--event <id>": "only those of one event",
    "--mapping <id>": "only those of this mapping",
  },
  one: ({ api }, id) => read(api.runs[":id"].retry.$post(withId(id))),
  async many(to, chosen, { session: sessionKey, event, mapping, ...given }) {
    const status = readRetryStatus(given);
    const eventId = event && (await resolveId(to, "events", event));
    const json = { ...chosen, status, sessionKey, eventId, mapping };
    return to.api.runs.retry.$post({ json });
  },
  render: ({ run }) => `${run.id}  ${run.status}`,
  words: RETRY,
  later: "no gateway runs just now: the runs start with the next `rouse start`\n",
});

const USAGE_COLUMNS: readonly RecordColumn<UsageSum>[] = [
  "runs",
  ["input", ({ inputTokens }) => inputTokens],
  ["cached", ({ cachedInputTokens }) => cachedInputTokens],
  ["output", ({ outputTokens }) => outputTokens],
  ["cost", ({ costUsd, unpricedRuns }) => renderCost(costUsd, unpricedRuns)],
];

const runsUsage = asking({
  usage: "",
  about: "tokens and costs of runs, of the last 30 days or since --since",
  examples: ["rouse runs --usage --by model --since 7d"],
  options: {
    "--by <what>": {
      about: "with --usage, add up by mapping, agent, model or day (default: day)",
      choices: USAGE_KEYS,
    },
    "--since <time>": "of newer runs (default: 30d)",
  },
  ask: ({ api }, { by = "day", since = "30d" }) => read(api.usage.$get({ query: { by, since } })),
  print({ by, rows, total, since }, io) {
    if (rows.length === 0) return io.out(`no run has ended since ${localTime(since)}\n`);
    printRows(io, [[by, ({ key }) => key], ...USAGE_COLUMNS], [...rows, total]);
    if (total.unpricedRuns > 0)
      io.out(
        `\n${plural(total.unpricedRuns, "run")} used a model whose price is unknown: set models.prices\n`,
      );
  },
});

export const runsCommand: Noun = {
  list: runsList,
  show: runsShow,
  views: { "--usage": runsUsage },
  commands: [runsCancel, runsRetry],
};

const deliveriesList = paging({
  noun: "deliveries",
  ids: "deliveries",
  about: "deliveries, newest first",
  examples: ["rouse deliveries --status failed"],
  options: {
    "--status <status>":
      "pending, delivered, failed, no_route (failed because no route was known) or unknown",
    "--channel <id>": "of one channel",
  },
  ask: ({ api }, page, { status, channel }) =>
    read(api.deliveries.$get({ query: { status, channel, ...page } })),
  rows: ({ deliveries: found }) => found,
  columns: [
    "id",
    "createdAt",
    "status",
    "channel",
    "to",
    ["sent", ({ sentChunks, chunks }) => `${sentChunks}/${chunks}`],
    "attempts",
    ["run or error", ({ error, runId }) => error ?? runId],
  ],
});

const deliveriesShow = asking({
  usage: "<delivery>",
  about: "one delivery with its messages, its tries and its error",
  examples: ["rouse deliveries dlv_…"],
  ask: async (to, _, name) =>
    read(to.api.deliveries[":id"].$get(withId(await resolveId(to, "deliveries", name)))),
  print({ delivery: { texts, ...delivery } }, io) {
    printDetail(io, delivery);
    for (const [index, text] of texts.entries()) {
      const state = index < delivery.sentChunks ? "sent" : "not sent";
      printBlock(io, `message ${index + 1} (${state})`, text);
    }
  },
});

const deliveriesRetry = choosing({
  usage: "retry [delivery...]",
  kind: "deliveries",
  about:
    "send again what failed, from the first chunk that was not sent; a reply without a route once there is one",
  examples: [
    "rouse deliveries retry dlv_…",
    "rouse deliveries retry dlv_… --arrived",
    "rouse deliveries retry --status no_route",
    "rouse deliveries retry --failed --since 1d --dry-run",
  ],
  filters: {
    ...createRetryFilters(RETRIED_DELIVERIES),
    "--channel <id>": "only those of one channel",
  },
  own: {
    "--arrived": "of one that is unknown: its message in doubt is in the chat, so go on after it",
  },
  one({ api }, id, { arrived }) {
    const query = { arrived: arrived ? ("1" as const) : undefined };
    return read(api.deliveries[":id"].retry.$post({ ...withId(id), query }));
  },
  many: ({ api }, chosen, { channel, ...given }) =>
    api.deliveries.retry.$post({ json: { ...chosen, status: readRetryStatus(given), channel } }),
  render: ({ delivery: { id, status, channel, to } }) =>
    `${id}  ${status}  ${channel} ${cell(to ?? "–")}`,
  words: RETRY,
  later: "no gateway runs just now: what is pending is sent with the next `rouse start`\n",
});

export const deliveriesCommand: Noun = {
  list: deliveriesList,
  show: deliveriesShow,
  commands: [deliveriesRetry],
};

const sessionsList = paging({
  noun: "sessions",
  about: "sessions, last used first",
  examples: ["rouse sessions --origin hook --since 1d"],
  options: {
    "--agent <id>": "of one agent",
    "--origin <origin>": "main, hook, api or channel",
  },
  ask: ({ api }, page, { agent, origin }) =>
    read(api.sessions.$get({ query: { agent, origin, ...page } })),
  rows: ({ sessions: found }) => found,
  columns: ["agentId", "origin", "turns", "lastUsedAt", "path", "credential", "key"],
});

/** The words of a model's message: a text, or the texts among its parts; tools by their name. */
function getWords(message: unknown): string {
  const content = member(message, "content");
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  const parts = content.map((part: unknown) => {
    const text = member(part, "text");
    if (typeof text === "string") return text;
    const tool = member(part, "toolName");
    return typeof tool === "string" ? `[${String(member(part, "type"))} ${tool}]` : "";
  });
  return parts.filter((part) => part !== "").join("\n");
}

type Turn = SessionDetail["turns"][number];

function printCheckpoint({ at, input, checkpoint }: Turn, io: CliIo): void {
  const { turns = 0, left = 0, outside = false, model } = checkpoint ?? {};
  const missing = left === 0 ? "" : `, ${left} of them in no summary`;
  const by = model ? `  ${model}` : "";
  io.out(`\n— ${localTime(at)}  checkpoint: replaces ${plural(turns, "turn")}${missing}${by}\n`);
  if (input.length > 0)
    printBlock(io, outside ? "summary (outside text)" : "summary", plainText(input.slice(1)));
}

function printTurn(turn: Turn, io: CliIo): void {
  if (turn.checkpoint) return printCheckpoint(turn, io);
  io.out(`\n— ${localTime(turn.at)}  ${cell(turn.hook)}  ${turn.runId}\n`);
  const isOutside = turn.input.some((part) => part.outside);
  printBlock(io, isOutside ? "in (outside text)" : "in", labelledText(turn.input));
  for (const message of turn.messages) {
    const role = String(member(message, "role"));
    printBlock(io, role === "assistant" ? "reply" : role, getWords(message));
  }
}

function printSession(detail: SessionDetail, io: CliIo): void {
  const { session, turns, next, queued, lastRoutes } = detail;
  printRecord(io, session, [
    ["session", ({ key }) => key],
    "agentId",
    "origin",
    "path",
    "credential",
    "turns",
    ["last used", ({ lastUsedAt }) => lastUsedAt ?? "never"],
    ["last route", () => lastRoutes[0] && [lastRoutes[0].channel, lastRoutes[0].to]],
    ["waiting events", () => queued.length || null],
  ]);
  if (next !== null) io.out(`\nthere are older turns: --before ${next}\n`);
  for (const turn of turns) printTurn(turn, io);
  for (const { at, source, text } of queued)
    printBlock(
      io,
      `waits for a heartbeat since ${localTime(at)} (${cell(source)})`,
      plainText(text),
    );
}

/** Options that identify a session together with its key. */
const REFERENCE = {
  "--agent <id>":
    "the session's agent (default: the one that the key of an API session names, else the first)",
  "--origin <origin>": "main, hook, api or channel (default: what the key says, else hook)",
  "--path <path>": "the hook path that the session belongs to, if several have one with this key",
  "--credential <name>":
    "the configured credential that it belongs to, as `rouse sessions` prints it",
} as const;

const sessionsShow = asking({
  usage: "<key>",
  about: "the newest turns and checkpoints of a session",
  examples: ["rouse sessions main", "rouse sessions hook:shop:42"],
  options: {
    ...REFERENCE,
    ...LIMIT_OPTION,
    "--before <id>": "older than this turn: the page before",
  },
  ask: ({ api }, given, key) =>
    read(api.sessions.show.$get({ query: { key, ...ownOptions(given) } })),
  print: printSession,
});

const sessionsRemove = asking({
  usage: "remove <key>",
  about: "delete a session with its history, or its history alone",
  examples: ["rouse sessions remove hook:shop:42", "rouse sessions remove main --history"],
  options: { ...REFERENCE, "--history": "forget its history, and keep the session" },
  async ask({ api }, { history, ...given }, key) {
    // The gateway checks the origin.
    const name = { key, ...ownOptions(given) } as SessionName;
    if (history) await api.sessions.reset.$post({ json: name });
    else await api.sessions.$delete({ query: name });
    return { removed: key };
  },
  print: ({ removed }, io, { history }) =>
    io.out(`${cell(removed)}  ${history ? "its history is deleted" : "deleted"}\n`),
});

export const sessionsCommand: Noun = {
  list: sessionsList,
  show: sessionsShow,
  commands: [sessionsRemove],
};
