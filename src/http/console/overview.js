import { ask, h, state, time } from "./dom.js";

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

async function showOverview() {
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
      count("approvals.open") > 0
        ? h("a", { href: "#/approvals" }, card("calls waiting for approval", count("approvals.open"), "warn"))
        : null,
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
      ? h("p", { class: "good" }, "No problems found.")
      : h(
          "ul",
          {},
          found.map((check) => h("li", {}, state(check.status), ` ${check.message}`)),
        ),
  ];
}

export const overview = { title: "Overview", show: showOverview, live: true };
