import { planDelivery } from "../delivery/plan.ts";
import { sessionId, type Job, type RunRecord } from "../store/types.ts";
import { replyRoute } from "./run-result.ts";
import type { RunJob, TurnDeps } from "./types.ts";

/** `/new` or `!new`, also after a mention and with the bot's name at its end (`@rouse /new`, `/new@rouse_bot`). */
const COMMAND = /^(?:@\S+\s+)?[/!](new|stop)(?:@\S+)?$/i;

/** Parses a message that is a command; undefined for any other message. */
export function parseCommand(text: string): "new" | "stop" | undefined {
  return COMMAND.exec(text.trim())?.[1]?.toLowerCase() as "new" | "stop" | undefined;
}

const MAX_STOPPED = 1000;

/** Cancels the turns of the command's session that were accepted before it. Returns the confirmation. */
async function stopTurns(command: RunRecord, { store, cancel }: TurnDeps): Promise<string> {
  const { session } = command.spec;
  const open = await Promise.all(
    (["queued", "running", "waiting"] as const).map((status) =>
      store.list("runs", { status, sessionKey: session.key, limit: MAX_STOPPED }),
    ),
  );
  const isOlder = ({ id, kind, spec, createdAt }: RunRecord): boolean =>
    id !== command.id &&
    kind === "channel" &&
    spec.command === undefined &&
    sessionId(spec.session) === sessionId(session) &&
    createdAt <= command.createdAt;
  let stopped = 0;
  let left = 0;
  // Newest first: otherwise the end of a running turn would start the next one.
  for (const run of open.flat().filter(isOlder)) {
    const done = await cancel(run.id);
    if (done.ok) stopped++;
    else if (done.failure.code === "store_unavailable") left++;
  }
  if (left > 0) return `${left} turns could not be stopped. Try again in a minute.`;
  if (stopped === 0) return "Nothing to stop.";
  return stopped === 1 ? "Stopped." : `Stopped: ${stopped} turns.`;
}

/** Executes the job of a command: stops the turns for `/stop`, and confirms either command. */
export async function executeCommand(job: Job, { runId }: RunJob, deps: TurnDeps): Promise<void> {
  const { store, clock } = deps;
  const run = await store.get("run", runId);
  const route = run && replyRoute(run.spec);
  if (!run || !route || run.deliveryId !== undefined || run.status === "cancelled") {
    await store.commit((tx) => tx.settle(job), job);
    return;
  }
  const isStop = run.spec.command === "stop";
  const reply = isStop ? await stopTurns(run, deps) : "A new conversation begins with your next message.";
  const now = clock.now();
  const planned = planDelivery({ runId, route, text: reply, channels: deps.context().channels, now });
  const done = await store.commit((tx) => {
    tx.update("run", runId, {
      reply,
      route: { status: "route", route },
      deliveryId: planned.delivery.id,
      ...(isStop ? { status: "succeeded", endedAt: now } : {}),
    });
    tx.add("delivery", planned.delivery);
    tx.add("job", planned.job);
    tx.settle(job);
  }, job);
  if (done && isStop) deps.onRunEnd(runId);
}

/** Executes the turn job of `/new`: in order with the session's turns, it deletes the history. */
export async function resetHistory(job: Job, run: RunRecord, { store, clock, onRunEnd }: TurnDeps): Promise<void> {
  const done = await store.commit((tx) => {
    tx.delete("turns", run.spec.session);
    tx.update("run", run.id, { status: "succeeded", endedAt: clock.now() });
    tx.settle(job);
  }, job);
  if (done) onRunEnd(run.id);
}
