import type { DecidingConfigView, Explanation } from "../../operate/records/explain.ts";
import type { EventDetail } from "../../operate/records/views.ts";
import { asking } from "../command.ts";
import { read, withId } from "../gateway/connect.ts";
import { resolveId } from "../ids.ts";
import type { CliIo } from "../io.ts";
import { printBlock, printDebug, printLines, printRecord } from "../print.ts";
import { printTestedHook } from "./print-tested-hook.ts";
import { printRun } from "../nouns/print-run.ts";
import { bytes, localTime } from "../text.ts";

/** Names the config that decided, and the one that is in use today. */
function renderConfig({
  text: name,
  isToday,
  firstUsedAt,
  lastUsedAt,
  today,
}: DecidingConfigView): string {
  if (isToday)
    return firstUsedAt === null ? name : `${name}, in use since ${localTime(firstUsedAt)}`;
  const used =
    firstUsedAt === null || lastUsedAt === null
      ? ""
      : `, in use from ${localTime(firstUsedAt)} to at least ${localTime(lastUsedAt)}`;
  return `${name}${used}; today's is ${today === null ? "a config without a number" : `config ${today}`}`;
}

const renderHandled = (handled: NonNullable<EventDetail["handled"]>): string =>
  `${handled.as} ${localTime(handled.at)}: ${handled.as === "discarded" ? handled.reason : handled.eventId}`;

function printHead({ event, note, evaluation, config }: Explanation, io: CliIo): void {
  const { replayOf, edited, handled, warnings } = event;
  printRecord(io, event, [
    ["event", ({ id }) => id],
    "receivedAt",
    "path",
    ["came in by", ({ credential }) => credential],
    ["from", ({ address }) => address],
    "outcome",
    "reason",
    ["answered", ({ answerStatus }) => answerStatus],
    "mapping",
    ["warnings", () => warnings.join("; ")],
    ["missing", ({ missing }) => missing.join(", ")],
    ["duplicate of", ({ duplicateOf }) => duplicateOf],
    ["replay of", () => replayOf && `${replayOf}${edited ? ", with an edited body" : ""}`],
    ["handled", () => handled && renderHandled(handled)],
    ["content type", ({ request }) => request.contentType],
    ["body", ({ bodyBytes }) => (bodyBytes === null ? "no longer kept" : bytes(bodyBytes))],
    ["decided by", () => config && renderConfig(config)],
    ["note", () => config?.note],
    [evaluation ? "differs" : "mappings", () => note],
  ]);
  for (const { kind, id, status, mapping } of event.actions)
    io.out(`${[kind, id, status ?? "", mapping ?? ""].join("  ").trimEnd()}\n`);
  for (const { kind, mapping, content, fields } of event.would) {
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}`);
    const text = content.map((part) => part.text).join("");
    const title = `in shadow, ${mapping ?? kind} would have done`;
    printBlock(io, title, [...lines, "", text].join("\n"));
  }
  printDebug(io, event.debug);
}

function printExplanation(explanation: Explanation, io: CliIo): void {
  printHead(explanation, io);
  if (explanation.evaluation) {
    io.out("\n");
    printTestedHook(explanation.evaluation, io);
  }
  for (const run of explanation.runs) {
    io.out("\n");
    printRun(run, io, { isExplained: true });
  }
}

/** Prints the request as it was recorded. */
function printRequest({ request }: EventDetail, io: CliIo): void {
  const { headers, body, encoding } = request;
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  printLines(io, "headers", lines);
  if (body !== null && body !== "")
    printBlock(io, encoding === "base64" ? "body (base64)" : "body", body);
}

export const explainCommand = asking({
  usage: "explain <event>",
  about:
    "why a hook did what it did, by the config that decided: each mapping with its conditions, what was rendered, the runs",
  examples: [
    "rouse explain latest",
    "rouse explain evt_… --request",
    "rouse explain evt_… --json | jq '.explanation.evaluation.traces[].verdict'",
  ],
  options: {
    "--request": "add its headers and its body",
  },
  ask: async (to, _, name) =>
    read(to.api.events[":id"].explain.$get(withId(await resolveId(to, "events", name)))),
  print({ explanation }, io, { request }) {
    printExplanation(explanation, io);
    if (request) printRequest(explanation.event, io);
  },
});
