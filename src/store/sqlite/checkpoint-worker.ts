/** The main file of the thread that copies the log into the database: a checkpoint waits for the disk several times. */
import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData, type MessagePort } from "node:worker_threads";
import { copyLog, openHold, restartLog, type Checkpointed } from "./restart-log.ts";

/** `look`: how long the log is. `copy`: what can be copied while others write. `restart`: the rest, while the gateway writes nothing. */
export type CheckpointCall = "look" | "copy" | "restart" | "close";
export type CheckpointReply =
  | { ok: true; done: Checkpointed }
  | { ok: false; errcode: number | undefined; reason: string | undefined };

const port = parentPort as MessagePort;
const db = new DatabaseSync(workerData as string);
/** Writers are held back meanwhile: who reads for longer lets the log grow. */
db.exec("PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA busy_timeout=50;");
const hold = openHold(workerData as string);

function run(call: Exclude<CheckpointCall, "close">): CheckpointReply {
  try {
    hold.release();
    if (call === "restart") return { ok: true, done: restartLog(db) };
    // Until the restart: otherwise the next writer of the gateway would find the log to be restarted, and sync its header.
    hold.take();
    return { ok: true, done: copyLog(db, call === "look" ? "NOOP" : "PASSIVE") };
  } catch (error) {
    hold.release();
    const { errcode, errstr } = error as { errcode?: number; errstr?: string };
    return { ok: false, errcode, reason: errstr };
  }
}

port.on("message", (call: CheckpointCall) => {
  if (call !== "close") return port.postMessage(run(call));
  hold.close();
  db.close();
  port.close();
});
