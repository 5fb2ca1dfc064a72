import { act, ask, facts, h, link, parts, state, time } from "./dom.js";
import { list } from "./list.js";
import { sessionLink } from "./sessions.js";

const STATUSES = ["queued", "running", "succeeded", "failed", "timed_out", "cancelled"];

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
      [
        "provider said",
        run.error?.vendor && [run.error.vendor.status, run.error.vendor.code, run.error.vendor.message].filter(Boolean).join(" "),
      ],
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

export const runs = {
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
};
