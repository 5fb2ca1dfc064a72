import { act, ask, facts, h, link, parts, renderQuery, time } from "./dom.js";
import { list } from "./list.js";

/** A link to a session, by the id that lists have: `<agent>/<origin>/<key>`, or `<agent>/hook@<path>|<credential>/<key>`. */
export function sessionLink({ agentId, origin, key, path, credential }) {
  const place = path === null ? origin : `${origin}@${path}|${credential}`.replaceAll("/", "%2F");
  return link("sessions", `${agentId}/${place}/${key}`, key);
}

async function sessionDetail(name, refresh) {
  const [agent, place, ...rest] = name.split("/");
  const [origin, path, credential] = place.replaceAll("%2F", "/").split(/[@|]/);
  const ref = { agent, origin, key: rest.join("/"), path, credential };
  const { session, turns, queued, lastRoutes } = await ask(`/sessions/show?${renderQuery(ref)}`);
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
