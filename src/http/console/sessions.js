import { act, ask, facts, h, link, parts, renderQuery, time } from "./dom.js";
import { list } from "./list.js";

/** A link to a session, by the id that lists have: `<agent>/<origin>/<key>`, or `<agent>/hook@<path>|<credential>/<key>`. */
export function sessionLink({ agentId, origin, key, path, credential }) {
  const place = path === null ? origin : `${origin}@${path}|${credential}`.replaceAll("/", "%2F");
  return link("sessions", `${agentId}/${place}/${key}`, key);
}

function renderTurn({ at, runId, input, messages, checkpoint }) {
  const said = messages.map(({ content }) => (typeof content === "string" ? content : JSON.stringify(content))).join("\n");
  if (!checkpoint) return [h("p", { class: "quiet" }, time(at), " ", link("runs", runId)), parts(input), h("pre", {}, said)];
  const left = checkpoint.left === 0 ? "" : `, ${checkpoint.left} of them in no summary`;
  const title = h("p", { class: "quiet" }, time(at), ` checkpoint: replaces ${checkpoint.turns} turns${left} `, checkpoint.model);
  return [title, input.length > 0 ? parts(input.slice(1)) : null];
}

/** The turns of a page, below a button for those before it. */
function renderHistory({ turns, next }, ref) {
  const older = h("div");
  const load = async () => older.replaceChildren(renderHistory(await ask(`/sessions/show?${renderQuery({ ...ref, before: next })}`), ref));
  if (next !== null) older.append(h("button", { type: "button", onclick: load }, "Older turns"));
  return h("div", {}, older, turns.map(renderTurn));
}

async function sessionDetail(name, refresh) {
  const [agent, place, ...rest] = name.split("/");
  const [origin, path, credential] = place.replaceAll("%2F", "/").split(/[@|]/);
  const ref = { agent, origin, key: rest.join("/"), path, credential };
  const detail = await ask(`/sessions/show?${renderQuery(ref)}`);
  const { session, queued, lastRoutes } = detail;
  const reset = async () => {
    await ask("/sessions/reset", { method: "POST", body: ref });
    return "its history is deleted";
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
    h("div", { class: "actions" }, act("Delete the history", "Delete the history of this session?", reset, refresh)),
    queued.length > 0 ? [h("h2", {}, "Waiting for a heartbeat"), queued.map((event) => parts(event.text))] : null,
    h("h2", {}, "History"),
    renderHistory(detail, ref),
  ];
}

export const sessions = {
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
};
