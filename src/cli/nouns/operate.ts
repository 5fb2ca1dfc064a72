import { asking, printRows } from "../command.ts";
import { read } from "../connect.ts";

export const doctor = asking({
  usage: "doctor",
  about: "check for common problems; exit code 1 if a check fails",
  examples: ["rouse doctor"],
  ask: async ({ api, live, stateDir }) => ({
    running: live,
    stateDir,
    ...(await read(api.doctor.$get())),
  }),
  isFailure: ({ checks }) => checks.some((check) => check.status === "fail"),
  print({ running, stateDir, checks }, io) {
    io.out(
      running
        ? `a gateway runs on ${stateDir}\n\n`
        : `no gateway runs on ${stateDir}: looked at its store and config\n\n`,
    );
    printRows(
      io,
      [
        ["", (check) => (check.status === "ok" ? "ok" : check.status.toUpperCase())],
        "id",
        "message",
      ],
      checks,
      // The last column is where people read what to change.
      { isWhole: true },
    );
  },
});
