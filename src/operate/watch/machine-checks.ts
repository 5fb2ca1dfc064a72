/** Checks of the machine that the gateway runs on: its files, its disk and its clock. */
import { stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { safeError } from "../../core/errors.ts";
import { plural } from "../../core/text.ts";
import { getBodiesOverdue } from "../../store/sweeper.ts";
import { fail, warn, type Checks } from "./doctor-checks.ts";

const LITTLE_SPACE_MB = 200;
const DAY_MS = 86_400_000;

export const MACHINE_CHECKS: Checks = {
  "file-modes": async (deps) => {
    if (process.platform === "win32") return "file modes do not apply on this system";
    const { stateDir } = deps.status();
    const open: string[] = [];
    for (const name of ["", "rouse.db", "hook-token", "gateway-token", "gateway.json"]) {
      const found = await stat(join(stateDir, name)).catch(() => undefined);
      if (found && (found.mode & 0o077) !== 0)
        open.push(name === "" ? stateDir : join(stateDir, name));
    }
    return open.length === 0
      ? "the state folder is for its owner alone"
      : warn(`others can read ${open.join(", ")}: chmod go-rwx`);
  },
  "disk-space": async (deps) => {
    const disk = await statfs(deps.status().stateDir);
    const free = Math.floor((disk.bavail * disk.bsize) / 1e6);
    return free > LITTLE_SPACE_MB
      ? `${free} MB free`
      : fail(`only ${free} MB free for the state folder: hooks are refused once it is full`);
  },
  store: async (deps) => {
    try {
      await deps.store.commit((tx) => tx.values.set("doctor.at", deps.clock.now()));
      return "takes writes";
    } catch (error) {
      return fail(
        `takes no writes (${safeError(error).code ?? safeError(error).name}): hooks are answered 503; look at the disk of the state folder`,
      );
    }
  },
  bodies: async ({ store, clock: { now } }, { config }) => {
    const overdueMs = await getBodiesOverdue(store, now(), config.hooks.retention);
    if (overdueMs <= DAY_MS) return "bodies are removed when hooks.retention says";
    const days = Math.floor(overdueMs / DAY_MS);
    return fail(
      `the oldest body has been kept for ${plural(days, "day")} longer than hooks.retention: old records are not removed; look in the log for "old records could not be removed", and start a gateway with workers if none runs`,
    );
  },
  clock: async (deps) => {
    const [newest] = await deps.store.events.list({ limit: 1 });
    const ahead = (newest?.receivedAt ?? 0) - deps.clock.now();
    return ahead > 60_000
      ? fail(
          `the newest event is ${Math.round(ahead / 1000)} s in the future: the system's clock went back`,
        )
      : new Date(deps.clock.now()).toISOString();
  },
};
