import { once } from "node:events";
import { createLogger } from "../../src/core/log.ts";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import type { Job, StoreHandle } from "../../src/store/types.ts";
import { delivery, event, job, runAction, wakeAction } from "./suite/make.ts";

const [url = "", mode = "load"] = process.argv.slice(2);
const handle = await openStore({ url, clock: systemClock, log: createLogger("silent") });
const { store, queue } = handle;

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const die = (): void => void process.kill(process.pid, "SIGKILL");

/** Accepts hooks as long as it lives, and says each run once it is acknowledged. */
async function accept(n: number): Promise<void> {
  for (let i = 0; ; i++) {
    const action = runAction(`hook:${(n + i) % 5}`);
    await store.accept(event({ actions: [action, wakeAction()] }));
    say(`accepted ${action.runId}`);
  }
}

async function carryOut({ store: to }: StoreHandle, one: Job): Promise<void> {
  await to.commit(
    (tx) => tx.runs.update(one.id, { status: "running", attempts: one.attempts }),
    one,
  );
  await new Promise((resolve) => setImmediate(resolve));
  const done = await to.commit((tx) => {
    tx.runs.update(one.id, {
      status: "succeeded",
      endedAt: systemClock.now(),
      deliveryId: `d-${one.id}`,
    });
    tx.deliveries.add(delivery(`d-${one.id}`, { runId: one.id }));
    tx.jobs.add(job(`d-${one.id}`, { kind: "delivery" }));
    tx.jobs.settle(one);
  }, one);
  if (done) say(`done ${one.id}`);
}

async function work(): Promise<void> {
  await queue.recover();
  for (;;) {
    const jobs = await queue.fetch("turn", 3);
    await Promise.all(jobs.map((one) => carryOut(handle, one)));
    if (jobs.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

if (mode === "accepted") {
  const action = runAction();
  say(`accepted ${action.runId}`);
  await store.accept(event({ actions: [action, wakeAction()] }));
  die();
} else if (mode === "fetched") {
  await store.accept(event({ actions: [runAction()] }));
  await queue.fetch("turn", 1);
  die();
} else if (mode === "held") {
  await queue.recover();
  const [one] = await queue.fetch("turn", 1);
  say(`held ${one?.id ?? "nothing"}`);
  await once(process.stdin, "data");
  const done = await store.commit((tx) => {
    tx.values.set("late", true);
    tx.jobs.settle(one as Job);
  }, one);
  say(`done ${done}`);
  await store.close();
  process.exit();
} else {
  await Promise.all([accept(0), accept(1), accept(2), work()]);
}
