import { acquireLock } from "../../src/store/lock.ts";

const stateDir = process.argv[2] ?? "";
const shared = process.argv[3] === "shared";
await acquireLock(
  stateDir,
  { pid: process.pid, startedAt: 1, version: "", url: "http://child" },
  { shared },
);
process.stdout.write("held\n");
setInterval(() => undefined, 1000);
