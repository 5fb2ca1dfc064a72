import { act, ask, facts, h, link, parts, state, time } from "./dom.js";
import { list } from "./list.js";

const OUTCOMES = ["accepted", "skipped", "unmatched", "duplicate", "rejected", "failed"];

/** What mappings in shadow would have done. */
function shadow(would) {
  if (would.length === 0) return null;
  return [
    h("h2", {}, "What a mapping in shadow would have done"),
    would.map((action) => [
      facts([["mapping", action.mapping], ...Object.entries(action.fields).map(([name, value]) => [name, String(value)])]),
      parts(action.content),
    ]),
  ];
}

/** What the code of mappings printed and threw. */
function codeNotes(debug) {
  if (!debug) return null;
  return [
    h("h2", {}, "What the mapping's code printed and threw"),
    debug.notes.map(({ mapping, field, item, error, console: printed = [], cut }) => [
      h("h3", {}, `${field} of ${mapping}${item === undefined ? "" : `, item ${item}`}`),
      h(
        "pre",
        {},
        [
          ...(error ? [error.message, ...(error.frames ?? []).map((frame) => `  at ${frame}`)] : []),
          ...(error?.excerpt ? [`line ${error.line}, column ${error.column}:`, error.excerpt] : []),
          ...printed.map(({ stream, text }) => `${stream === "stderr" ? "console (stderr)" : "console"}: ${text}`),
          ...(cut ? ["further lines are not kept"] : []),
        ].join("\n"),
      ),
    ]),
    debug.cut ? h("p", { class: "quiet" }, "Further notes are not kept.") : null,
  ];
}

async function eventDetail(id, refresh) {
  const { event } = await ask(`/events/${encodeURIComponent(id)}`);
  const replay = (dryRun) => async () => {
    const { result } = await ask(`/events/${encodeURIComponent(id)}/replay`, { method: "POST", body: { dryRun } });
    const made = result.actions.map((action) => `${action.kind}: ${action.summary}`).join("; ");
    return `${result.outcome}${result.reason ? `, ${result.reason}` : ""}${made ? `: ${made}` : ""}`;
  };
  return [
    h("h2", {}, "Event ", event.id),
    facts([
      ["outcome", state(event.outcome)],
      ["reason", event.reason],
      ["received", time(event.receivedAt)],
      ["path", event.path],
      ["mapping", event.mapping],
      ["nearest mapping", event.nearest && `${event.nearest.mapping} (${event.nearest.condition} does not hold)`],
      ["warnings", event.warnings.join("; ")],
      ["missing fields", event.missing.join(", ")],
      ["came in by", `${event.credential}${event.address ? ` from ${event.address}` : ""}`],
      ["repeats", event.duplicateOf && link("events", event.duplicateOf)],
      ["replay of", event.replayOf && link("events", event.replayOf)],
      ["body", event.edited && "edited by an operator before the replay"],
      [
        "became",
        event.actions.map((action) =>
          h(
            "div",
            {},
            `${action.kind} `,
            action.kind === "run" ? link("runs", action.id) : action.id,
            " ",
            action.status ? state(action.status) : "",
          ),
        ),
      ],
    ]),
    h("div", { class: "actions" }, [
      act("What would it do now?", "", replay(true)),
      act("Replay", "Replay this event with the current mappings?", replay(false), refresh),
    ]),
    shadow(event.would),
    codeNotes(event.debug),
    h("h2", {}, "Request"),
    h(
      "pre",
      {},
      `${event.request.method}\n${Object.entries(event.request.headers)
        .map(([name, value]) => `${name}: ${value}`)
        .join("\n")}`,
    ),
    event.request.body === null ? h("p", { class: "quiet" }, "The body is no longer kept.") : h("pre", {}, event.request.body),
  ];
}

export const events = {
  title: "Events",
  live: true,
  detail: eventDetail,
  show: list({
    path: "/events",
    member: "events",
    filters: [["outcome", OUTCOMES], ["path"], ["since"]],
    empty: "No event like that has come in.",
    columns: [
      ["received", (row) => h("a", { href: `#/events/${row.id}` }, time(row.receivedAt))],
      ["path", (row) => row.path],
      ["outcome", (row) => state(row.outcome)],
      ["mapping", (row) => row.mapping ?? "–"],
      ["why", (row) => row.reason ?? row.actions.map((action) => action.kind).join(", ")],
    ],
  }),
};
