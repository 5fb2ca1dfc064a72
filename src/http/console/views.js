import { ask, facts, h, parts, state, table, time } from "./dom.js";

const link = (kind, id, text = id) => h("a", { href: `#/${kind}/${encodeURIComponent(id)}` }, text);
const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();

/** A button that asks before it acts, and shows what came of it. */
function act(label, question, run, after) {
  const said = h("span", { role: "status" });
  const click = async () => {
    if (question && !confirm(question)) return;
    try {
      said.textContent = `${await run()}`;
      after?.();
    } catch (error) {
      said.textContent = error.message;
    }
  };
  return h("span", {}, h("button", { type: "button", onclick: click }, label), " ", said);
}

const DAY_MS = 86_400_000;
const HOURS = 24;

/** The events of the last day by hour: what was accepted, and what came to nothing. */
function chart(events) {
  const NS = "http://www.w3.org/2000/svg";
  const svg = (tag, attributes) => {
    const element = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    return element;
  };
  const now = Date.now();
  const hours = Array.from({ length: HOURS }, () => ({ good: 0, bad: 0 }));
  for (const event of events) {
    const hour = HOURS - 1 - Math.floor((now - Date.parse(event.receivedAt)) / (DAY_MS / HOURS));
    if (hours[hour]) hours[hour][event.outcome === "accepted" || event.outcome === "duplicate" ? "good" : "bad"]++;
  }
  const most = Math.max(1, ...hours.map(({ good, bad }) => good + bad));
  const picture = svg("svg", { viewBox: "0 0 240 60", width: "100%", height: 90, preserveAspectRatio: "none", role: "img" });
  picture.setAttribute("aria-label", `Events of the last 24 hours, at most ${most} in one hour`);
  for (const [index, { good, bad }] of hours.entries()) {
    const [up, down] = [(good / most) * 58, (bad / most) * 58];
    picture.append(svg("rect", { x: index * 10, width: 8, y: 60 - up, height: up, fill: "var(--good)" }));
    picture.append(svg("rect", { x: index * 10, width: 8, y: 60 - up - down, height: down, fill: "var(--bad)" }));
  }
  return picture;
}

const card = (name, value, tone) =>
  h("div", { class: "card" }, h("span", { class: "quiet" }, name), h("b", tone ? { class: tone } : {}, value));

async function overview() {
  const [{ status }, { checks }, { events, next }] = await Promise.all([ask("/status"), ask("/doctor"), ask("/events?limit=500&since=1d")]);
  const { counts } = status;
  const count = (name) => counts[name] ?? 0;
  const found = checks.filter((check) => check.status !== "ok");
  const problems = status.reloadProblems.map((issue) => h("li", { class: "bad" }, `${issue.path}: ${issue.message}`));
  return [
    h("h2", {}, status.draining ? "Stopping" : status.workers ? "Running" : "Accepting, without workers"),
    h(
      "p",
      { class: "quiet" },
      `Version ${status.version}, config ${status.configFile ?? "none: the defaults"}, since `,
      time(status.startedAt),
    ),
    problems.length > 0
      ? [h("h2", { class: "bad" }, "The config on disk has problems; the one before it is in use"), h("ul", {}, problems)]
      : null,
    h("div", { class: "cards" }, [
      card("accepted", count("events.accepted"), "good"),
      card("unmatched", count("events.unmatched")),
      card("rejected", count("events.rejected")),
      card("failed events", count("events.failed"), count("events.failed") > 0 ? "bad" : ""),
      card("runs waiting", status.waiting.turn.count),
      card("runs failed", count("runs.failed"), count("runs.failed") > 0 ? "bad" : ""),
      card("deliveries waiting", status.waiting.delivery.count),
      card("deliveries failed", count("deliveries.failed"), count("deliveries.failed") > 0 ? "bad" : ""),
      card("replies without a route", count("deliveries.no_route"), count("deliveries.no_route") > 0 ? "bad" : ""),
    ]),
    h("h2", {}, next ? "The newest 500 events of the last 24 hours" : "The last 24 hours"),
    chart(events),
    h("h2", {}, "Doctor"),
    found.length === 0
      ? h("p", { class: "good" }, "Nothing is wrong.")
      : h(
          "ul",
          {},
          found.map((check) => h("li", {}, state(check.status), ` ${check.message}`)),
        ),
  ];
}

/** A list with filters and a way to older ones. */
function list({ path, member, filters = [], columns, empty }) {
  return async (parameters, go) => {
    const answer = await ask(`${path}?${query({ limit: 50, ...parameters })}`);
    const controls = filters.map(([name, values]) => {
      const change = (event) => go({ ...parameters, [name]: event.target.value, before: "" });
      if (!values) return h("input", { placeholder: name, "aria-label": name, value: parameters[name] ?? "", onchange: change });
      const option = (value) => h("option", { value, selected: (parameters[name] ?? "") === value }, value || `any ${name}`);
      return h("select", { "aria-label": name, onchange: change }, ["", ...values].map(option));
    });
    const older = answer.next ? h("button", { type: "button", onclick: () => go({ ...parameters, before: answer.next }) }, "Older") : null;
    return [controls.length > 0 ? h("div", { class: "filters" }, controls) : null, table(answer[member], columns, empty), older];
  };
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
      act("Replay", "Let this event come in again?", replay(false), refresh),
    ]),
    event.would.length > 0
      ? [
          h("h2", {}, "What a mapping in shadow would have done"),
          event.would.map((action) => [
            facts([["mapping", action.mapping], ...Object.entries(action.fields).map(([name, value]) => [name, String(value)])]),
            parts(action.content),
          ]),
        ]
      : null,
    event.debug
      ? [
          h("h2", {}, "What the mapping's code printed and threw"),
          event.debug.notes.map(({ mapping, field, item, error, console: printed = [], cut }) => [
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
          event.debug.cut ? h("p", { class: "quiet" }, "Further notes are not kept.") : null,
        ]
      : null,
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

async function runDetail(id, refresh) {
  const { run } = await ask(`/runs/${encodeURIComponent(id)}`);
  const operate = (name) => async () => {
    const answer = await ask(`/runs/${encodeURIComponent(id)}/${name}`, { method: "POST" });
    return `now ${answer.run?.status ?? "done"}`;
  };
  return [
    h("h2", {}, "Run ", run.id),
    facts([
      ["status", state(run.status)],
      ["error", run.error && `${run.error.code}: ${run.error.message}`],
      ["name", run.name],
      ["agent", run.agentId],
      ["session", sessionLink({ ...run, key: run.sessionKey })],
      ["model", run.model],
      ["attempts", run.attempts],
      ["warnings", run.warnings.map((warning) => h("div", { class: "warn" }, warning))],
      ["delivery", run.delivery && [state(run.delivery), run.route?.reason ? ` ${run.route.reason}` : ""]],
      ["tokens", run.usage && `${run.usage.inputTokens ?? "?"} in, ${run.usage.outputTokens ?? "?"} out`],
      ["event", run.eventId && link("events", run.eventId)],
      ["created", time(run.createdAt)],
      ["started", time(run.startedAt)],
      ["ended", time(run.endedAt)],
    ]),
    h("div", { class: "actions" }, [
      ["queued", "running", "parked"].includes(run.status) ? act("Cancel", "Cancel this run?", operate("cancel"), refresh) : null,
      ["failed", "timed_out", "cancelled"].includes(run.status) ? act("Retry", "Start this run again?", operate("retry"), refresh) : null,
    ]),
    h("h2", {}, "What the agent was given"),
    parts(run.input),
    run.reply ? [h("h2", {}, "What it replied"), h("pre", {}, run.reply)] : null,
  ];
}

/** A link to a session, by the id that lists have: `<agent>/<origin>/<key>`, or `<agent>/hook@<path>|<credential>/<key>`. */
function sessionLink({ agentId, origin, key, path, credential }) {
  const place = path === null ? origin : `${origin}@${path}|${credential}`.replaceAll("/", "%2F");
  return link("sessions", `${agentId}/${place}/${key}`, key);
}

async function sessionDetail(name, refresh) {
  const [agent, place, ...rest] = name.split("/");
  const [origin, path, credential] = place.replaceAll("%2F", "/").split(/[@|]/);
  const ref = { agent, origin, key: rest.join("/"), path, credential };
  const { session, turns, queued, lastRoutes } = await ask(`/sessions/show?${query(ref)}`);
  const reset = async () => {
    await ask("/sessions/reset", { method: "POST", body: ref });
    return "its history is gone";
  };
  return [
    h("h2", {}, "Session ", session.key),
    facts([
      ["agent", session.agentId],
      ["origin", session.origin],
      ["path", session.path],
      ["credential", session.credential],
      ["turns", session.turns],
      ["last used", time(session.lastUsedAt)],
      ["last routes", lastRoutes.map((route) => h("div", {}, `${route.channel}: ${route.to}`))],
    ]),
    h("div", { class: "actions" }, act("Forget the history", "Forget the history of this session?", reset, refresh)),
    queued.length > 0 ? [h("h2", {}, "Waiting for a heartbeat"), queued.map((event) => parts(event.text))] : null,
    h("h2", {}, "History"),
    turns.map((turn) => [
      h("p", { class: "quiet" }, time(turn.at), " ", link("runs", turn.runId)),
      parts(turn.input),
      h(
        "pre",
        {},
        turn.messages
          .map((message) => (typeof message.content === "string" ? message.content : JSON.stringify(message.content)))
          .join("\n"),
      ),
    ]),
  ];
}

async function system() {
  const [{ agents }, { channels }, { plugins }, { mappings }] = await Promise.all(
    ["agents", "channels", "plugins", "mappings"].map((name) => ask(`/${name}`)),
  );
  return [
    h("h2", {}, "Agents"),
    table(
      agents,
      [
        ["id", (row) => row.id],
        ["name", (row) => row.name],
        ["model", (row) => row.model],
        ["tools", (row) => row.tools.join(", ")],
      ],
      "None.",
    ),
    h("h2", {}, "Channels"),
    table(
      channels,
      [
        ["name", (row) => row.name],
        ["configured", (row) => (row.loaded ? "yes" : "no")],
        ["default recipient", (row) => row.defaultTo ?? "–"],
      ],
      "None.",
    ),
    h("h2", {}, "Mappings"),
    table(
      mappings,
      [
        ["id", (row) => row.id],
        ["from", (row) => row.origin],
        ["paths", (row) => row.paths.join(", ")],
        ["action", (row) => row.action],
      ],
      "None.",
    ),
    h("h2", {}, "Plugins"),
    table(
      plugins,
      [
        ["id", (row) => row.id],
        ["from", (row) => row.origin],
        ["configured", (row) => (row.configured ? "yes" : "no")],
      ],
      "None.",
    ),
  ];
}

const OUTCOMES = ["accepted", "skipped", "unmatched", "duplicate", "rejected", "failed"];
const STATUSES = ["queued", "running", "succeeded", "failed", "timed_out", "cancelled"];

/** The views by name: what to show, for a list's parameters or an id. */
export const VIEWS = {
  overview: { title: "Overview", show: overview, live: true },
  events: {
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
  },
  runs: {
    title: "Runs",
    live: true,
    detail: runDetail,
    show: list({
      path: "/runs",
      member: "runs",
      filters: [["status", STATUSES]],
      empty: "No run like that.",
      columns: [
        ["created", (row) => h("a", { href: `#/runs/${row.id}` }, time(row.createdAt))],
        ["name", (row) => row.name],
        ["status", (row) => state(row.status)],
        ["session", (row) => row.sessionKey],
        ["delivery", (row) => state(row.delivery)],
        ["error", (row) => row.error?.message ?? ""],
      ],
    }),
  },
  sessions: {
    title: "Sessions",
    detail: sessionDetail,
    show: list({
      path: "/sessions",
      member: "sessions",
      empty: "No session yet.",
      columns: [
        ["key", sessionLink],
        ["agent", (row) => row.agentId],
        ["path", (row) => row.path],
        ["turns", (row) => row.turns],
        ["last used", (row) => time(row.lastUsedAt)],
      ],
    }),
  },
  deliveries: {
    title: "Deliveries",
    live: true,
    show: list({
      path: "/deliveries",
      member: "deliveries",
      filters: [["status", ["pending", "delivered", "failed", "no_route", "unknown"]]],
      empty: "Nothing was delivered yet.",
      columns: [
        ["created", (row) => time(row.createdAt)],
        ["status", (row) => state(row.status)],
        ["channel", (row) => row.channel],
        ["to", (row) => row.to ?? ""],
        ["sent", (row) => `${row.sentChunks} of ${row.chunks}`],
        ["run", (row) => link("runs", row.runId)],
        ["error", (row) => row.error?.message ?? ""],
        [
          "",
          (row) =>
            row.status === "failed" || row.status === "unknown"
              ? act("Retry", "Send it again?", async () => (await ask(`/deliveries/${row.id}/retry`, { method: "POST" })).delivery.status)
              : "",
        ],
      ],
    }),
  },
  refusals: {
    title: "Refused",
    live: true,
    show: list({
      path: "/refusals",
      member: "refusals",
      empty: "Nobody was refused since the gateway started.",
      columns: [
        ["at", (row) => time(row.at)],
        ["address", (row) => row.address],
        ["path", (row) => row.path],
        ["reason", (row) => row.reason],
      ],
    }),
  },
  system: { title: "System", show: system },
};
