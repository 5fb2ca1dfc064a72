/** Checks of the machine that the gateway runs on: its files, its disk and its clock. */
import { stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { safeError } from "../../core/errors.ts";
import { fail, passedCheck, warningCheck, type Check } from "./doctor-checks.ts";

const LITTLE_SPACE_MB = 200;

export const checkModes: Check = async (deps) => {
  if (process.platform === "win32") return passedCheck("file modes do not apply on this system");
  const { stateDir } = deps.status();
  const open: string[] = [];
  for (const name of ["", "rouse.db", "hook-token", "gateway-token", "gateway.json"]) {
    const found = await stat(join(stateDir, name)).catch(() => undefined);
    if (found && (found.mode & 0o077) !== 0)
      open.push(name === "" ? stateDir : join(stateDir, name));
  }
  return open.length === 0
    ? passedCheck("the state folder is for its owner alone")
    : warningCheck(`others can read ${open.join(", ")}: chmod go-rwx`);
};

export const checkSpace: Check = async (deps) => {
  const disk = await statfs(deps.status().stateDir);
  const free = Math.floor((disk.bavail * disk.bsize) / 1e6);
  return free > LITTLE_SPACE_MB
    ? passedCheck(`${free} MB free`)
    : fail(`only ${free} MB free for the state folder: hooks are refused once it is full`);
};

export const checkStore: Check = async (deps) => {
  try {
    await deps.store.commit((tx) => tx.values.set("doctor.at", deps.clock.now()));
    return passedCheck("takes writes");
  } catch (error) {
    return fail(
      `takes no writes (${safeError(error).code ?? safeError(error).name}): hooks are answered 503; look at the disk of the state folder`,
    );
  }
};

export const checkClock: Check = async (deps) => {
  const [newest] = await deps.store.events.list({ limit: 1 });
  const ahead = (newest?.receivedAt ?? 0) - deps.clock.now();
  return ahead > 60_000
    ? fail(
        `the newest event is ${Math.round(ahead / 1000)} s in the future: the system's clock went back`,
      )
    : passedCheck(new Date(deps.clock.now()).toISOString());
};
