import { act, ask, link, state, time } from "./dom.js";
import { list } from "./list.js";

export const deliveries = {
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
};
