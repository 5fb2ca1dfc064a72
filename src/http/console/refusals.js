import { time } from "./dom.js";
import { list } from "./list.js";

export const refusals = {
  title: "Refused",
  live: true,
  show: list({
    path: "/refusals",
    member: "refusals",
    empty: "No request was rejected since the gateway started.",
    columns: [
      ["at", (row) => time(row.at)],
      ["address", (row) => row.address],
      ["path", (row) => row.path],
      ["reason", (row) => row.reason],
    ],
  }),
};
