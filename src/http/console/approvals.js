import { act, ask, facts, h, link, state, time } from "./dom.js";

const LABELS = { approve: "Approve", deny: "Deny", repeat: "Repeat the call", done: "Treat as done", give_up: "Give up" };
const QUESTIONS = { repeat: "Make this call again? It may have been carried out already.", give_up: "End this run?" };

/** What the agent wants to do, in words. */
function sentence({ agentId, tool, reason }) {
  if (reason === "outcome_unknown") return ["The agent ", h("b", {}, agentId), " called ", h("b", {}, tool), ", and no answer came."];
  return ["The agent ", h("b", {}, agentId), " wants to call ", h("b", {}, tool), "."];
}

/** A call with its arguments and the buttons that decide about it; the decision takes their place. */
function card(approval) {
  const { id, code, verdicts, decision, input, why, runId, askedAt, expiresAt, refused } = approval;
  const decide = (verdict) => async () => {
    const answer = await ask(`/approvals/${encodeURIComponent(id)}`, { method: "POST", body: { verdict } });
    section.replaceWith(card(answer.approval));
  };
  const section = h(
    "section",
    { "aria-label": `Approval ${code}` },
    h("h2", {}, `Approval ${code}`),
    h("p", {}, sentence(approval)),
    h("p", {}, why),
    h("h3", {}, "Arguments, as the model wrote them"),
    h("pre", {}, JSON.stringify(input, null, 2)),
    facts([
      ["run", link("runs", runId)],
      ["asked", time(askedAt)],
      ["waits until", decision ? null : time(expiresAt)],
      ["decision", decision && [state(decision.verdict), ` by ${decision.by}, `, time(decision.at)]],
      ["note", decision?.note],
      [
        "refused decisions",
        refused.map(({ verdict, by, at, code }) => h("div", { class: "warn" }, time(at), ` ${verdict} by ${by}: ${code}`)),
      ],
    ]),
    decision
      ? null
      : h(
          "div",
          { class: "actions" },
          verdicts.map((verdict) => act(LABELS[verdict], QUESTIONS[verdict], decide(verdict))),
        ),
  );
  return section;
}

async function showOpen() {
  const { approvals } = await ask("/approvals?state=open&limit=100");
  if (approvals.length === 0) return h("p", { class: "quiet" }, "No call waits for approval.");
  return approvals.map(card);
}

async function showOne(id) {
  const { approval } = await ask(`/approvals/${encodeURIComponent(id)}`);
  return card(approval);
}

export const approvals = { title: "Approvals", live: true, show: showOpen, detail: showOne };
