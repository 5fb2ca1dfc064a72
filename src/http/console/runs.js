import { act, ask, elapsed, facts, h, link, parts, state, time } from "./dom.js";
import { list } from "./list.js";
import { sessionLink } from "./sessions.js";

const STATUSES = ["parked", "collecting", "queued", "running", "waiting", "succeeded", "failed", "timed_out", "cancelled"];

/** What a tool answered. A text that was cut can be read whole. */
function outputOf(runId, { output, stored }) {
  if (!output) return null;
  const shown = output.parts.map((part) =>
    part.type === "text" ? h("pre", {}, part.text) : h("p", {}, `${part.mediaType} ${part.filename ?? ""} (${part.bytes} bytes)`),
  );
  const whole = h("pre", { hidden: "" });
  const read = async () => {
    const { result } = await ask(`/runs/${encodeURIComponent(runId)}/results/${encodeURIComponent(stored.id)}`);
    whole.textContent = result.text;
    whole.hidden = false;
    return "";
  };
  const cut = stored && h("div", {}, `Cut: the whole result has ${stored.length} characters. `, act("Show all", null, read), whole);
  return [h("h4", {}, output.isError ? "Error" : "Result"), shown, cut];
}

function approvalOf({ id, code, why, askedAt, expiresAt, decision }) {
  const asked = ["Approval ", link("approvals", id, code), ": ", why, ", asked ", time(askedAt)];
  if (!decision) return h("p", { class: "warn" }, asked, ", open until ", time(expiresAt));
  return h("p", {}, asked, ", ", state(decision.verdict), ` by ${decision.by}, `, time(decision.at), decision.note && `: ${decision.note}`);
}

const callOf = (runId) => (call) =>
  h(
    "section",
    { "aria-label": `Call ${call.id}` },
    h("h3", {}, `${call.tool} `, state(call.state), call.startedAt && ` ${elapsed(call.startedAt, call.endedAt)}`),
    h("pre", {}, JSON.stringify(call.input, null, 2)),
    call.approvals.map(approvalOf),
    outputOf(runId, call),
  );

const tokensOf = ({ inputTokens, outputTokens, cachedInputTokens, cacheWriteTokens, reasoningTokens }) =>
  [
    [inputTokens, "in"],
    [cachedInputTokens, "of them cached"],
    [cacheWriteTokens, "of them written to the cache"],
    [outputTokens, "out"],
    [reasoningTokens, "of them reasoning"],
  ]
    .filter(([count]) => count !== undefined)
    .map(([count, what]) => `${count} ${what}`)
    .join(", ");

const vendorOf = ({ vendor = {} }) => [vendor.status, vendor.code, vendor.message].filter(Boolean).join(" ");

const attemptOf = ({ at, model, error, waitedMs }) => {
  const said = vendorOf(error);
  const again = waitedMs === null ? "" : `; tried again after ${waitedMs / 1000} s`;
  return h("div", { class: "bad" }, time(at), ` ${model}: ${error.code}: ${error.message}${said && ` (${said})`}${again}`);
};

/** One model call, and the tool calls that it asked for. */
const stepOf = (runId) => (step) =>
  h(
    "section",
    { "aria-label": `Step ${step.index + 1}` },
    h("h2", {}, `Step ${step.index + 1}`),
    facts([
      ["model", step.model],
      ["instead of", step.insteadOf],
      ["started", time(step.startedAt)],
      ["took", elapsed(step.startedAt, step.endedAt)],
      ["tokens", tokensOf(step.usage)],
      ["ended with", step.finish],
      ["failed attempts", step.failedAttempts.map(attemptOf)],
    ]),
    step.thinking ? h("details", {}, h("summary", {}, "Thinking"), h("pre", {}, step.thinking)) : null,
    step.text ? h("pre", {}, step.text) : null,
    step.calls.map(callOf(runId)),
  );

const WAITS = {
  session: ({ head }) => ["the run of its session that goes first: ", link("runs", head)],
  limit: ({ scope, limit, until }) => [`limits.${limit} of ${scope}`, until && [", until ", time(until)]],
  breaker: ({ of, until }) => [`the model ${of}, which is tried again at `, time(until)],
  delay: ({ until }) => ["its time: ", time(until)],
  approval: ({ approvalIds, until }) => ["a person, until ", time(until), approvalIds.map((id) => [" ", link("approvals", id)])],
  worker: () => "a free worker: all are busy, or no gateway has workers",
};

/** What a run waits for, and until when. */
const waitsFor = ({ waitsFor: reason }) => reason && WAITS[reason.kind](reason);

async function runDetail(id, refresh) {
  const path = `/runs/${encodeURIComponent(id)}`;
  const [{ run }, { steps }] = await Promise.all([ask(path), ask(`${path}/steps`)]);
  const operate = (name) => async () => {
    const answer = await ask(`/runs/${encodeURIComponent(id)}/${name}`, { method: "POST" });
    return `now ${answer.run?.status ?? "done"}`;
  };
  return [
    h("h2", {}, "Run ", run.id),
    facts([
      ["status", state(run.status)],
      ["error", run.error && `${run.error.code}: ${run.error.message}`],
      ["waits for", waitsFor(run)],
      ["waits since", run.waiting && time(run.waiting.since)],
      ["provider said", run.error && vendorOf(run.error)],
      ["name", run.name],
      ["agent", run.agentId],
      ["session", sessionLink({ ...run, key: run.sessionKey })],
      ["model", run.model],
      ["tokens", run.usage?.totalTokens],
      ["cost", run.usage && (run.usage.costUsd === undefined ? "unknown" : `$${run.usage.costUsd}`)],
      ["attempts", run.attempts],
      ["model calls without an answer", run.failedAttempts.map(attemptOf)],
      ["warnings", run.warnings.map((warning) => h("div", { class: "warn" }, warning))],
      ["delivery", run.delivery && [state(run.delivery), run.route?.reason ? ` ${run.route.reason}` : ""]],
      ["tokens", run.usage && `${run.usage.inputTokens ?? "?"} in, ${run.usage.outputTokens ?? "?"} out`],
      ["event", run.eventId && link("events", run.eventId)],
      ["created", time(run.createdAt)],
      ["started", time(run.startedAt)],
      ["ended", time(run.endedAt)],
    ]),
    h("div", { class: "actions" }, [
      ["queued", "running", "waiting", "parked"].includes(run.status)
        ? act("Cancel", "Cancel this run?", operate("cancel"), refresh)
        : null,
      ["failed", "timed_out", "cancelled"].includes(run.status) ? act("Retry", "Start this run again?", operate("retry"), refresh) : null,
    ]),
    h("h2", {}, "What the agent was given"),
    parts(run.input),
    steps.map(stepOf(run.id)),
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
      ["waits for", (row) => waitsFor(row) ?? ""],
      ["error", (row) => row.error?.message ?? ""],
    ],
  }),
};
