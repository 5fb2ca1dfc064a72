/** The main file of the thread that copies the log into the database: a checkpoint waits for the disk several times. */
import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData, type MessagePort } from "node:worker_threads";
import { copyLog, restartLog, type Checkpointed } from "./restart-log.ts";

/** `copy`: what can be copied while others write. `restart`: the rest, while the gateway writes nothing. */
export type CheckpointCall = "copy" | "restart" | "close";
export type CheckpointReply = { ok: true; done: Checkpointed } | { ok: false; errcode: number | undefined; reason: string | undefined };

const port = parentPort as MessagePort;
const db = new DatabaseSync(workerData as string);
/** Writers are held back meanwhile: who reads for longer lets the log grow. */
db.exec("PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA busy_timeout=50;");

function run(call: Exclude<CheckpointCall, "close">): CheckpointReply {
  try {
    const done = call === "restart" ? restartLog(db) : copyLog(db);
    // Nothing was written meanwhile, so that the next writer would find the log to be restarted.
    return {
      ok: true,
      done: call === "copy" && done.complete ? restartLog(db) : { ...done, complete: call === "restart" && done.complete },
    };
  } catch (error) {
    const { errcode, errstr } = error as { errcode?: number; errstr?: string };
    return { ok: false, errcode, reason: errstr };
  }
}

port.on("message", (call: CheckpointCall) => {
  if (call !== "close") return port.postMessage(run(call));
  db.close();
  port.close();
});
