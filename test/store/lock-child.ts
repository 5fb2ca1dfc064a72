import { acquireLock } from "../../src/store/lock.ts";

const stateDir = process.argv[2] ?? "";
await acquireLock(stateDir);
process.stdout.write("held\n");
setInterval(() => undefined, 1000);
