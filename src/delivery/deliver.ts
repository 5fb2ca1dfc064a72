import type { Clock } from "../core/clock.ts";
import { safeError, type Failure } from "../core/errors.ts";
import { newId } from "../core/ids.ts";
import type { Logger } from "../core/log.ts";
import type { SendResult } from "../plugin/api.ts";
import type { DeliveryRecord, DeliveryStatus, Job, NewDelivery, NewJob, Queue, Route, Store } from "../store/types.ts";
import { splitText } from "./split.ts";
import type { Channels } from "./types.ts";

/** What a delivery's job carries. */
interface DeliveryJob {
  deliveryId: string;
}

const MAX_ATTEMPTS = 12;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 900_000;
const SEND_TIMEOUT_MS = 30_000;
const PARALLEL = 8;
const STOP_MS = 5_000;

const jobOf = (id: string, route: Route, enqueuedAt: number): NewJob => ({
  id,
  kind: "delivery",
  key: `${route.channel}/${route.to}`,
  data: { deliveryId: id } satisfies DeliveryJob,
  enqueuedAt,
});

/** A reply as a delivery and its job, for the commit that ends the run. Deliveries to one recipient keep their order. */
export function planDelivery(options: { runId: string; route: Route; text: string; channels: Channels; now: number }): { delivery: NewDelivery; job: NewJob } {
  const { runId, route, text, channels, now } = options;
  const limit = channels.get(route.channel)?.channel.limit;
  const id = newId("dlv", now);
  const chunks = limit === undefined ? [text] : splitText(text, limit);
  return { delivery: { id, runId, route, chunks, createdAt: now }, job: jobOf(id, route, now) };
}

export interface DeliveryWorker {
  start(): void;
  /** Takes no more; waits at most five seconds for what is being sent. */
  stop(): Promise<void>;
  /** Sends a delivery that failed again, from the first piece that was not sent. */
  retry(id: string): Promise<{ ok: true; delivery: DeliveryRecord } | { ok: false; failure: Failure }>;
}

export interface DeliveryWorkerOptions {
  store: Store;
  queue: Queue;
  channels(): Channels;
  maxAgeMs(): number;
  clock: Clock;
  log: Logger;
  onOutcome?: (delivery: { id: string; channel: string; status: DeliveryStatus }) => void;
}

function waitMs(attempts: number, result: Extract<SendResult, { status: "retry" }>): number {
  if (result.afterMs !== undefined) return result.afterMs;
  return Math.min(FIRST_WAIT_MS * 2 ** (attempts - 1), LONGEST_WAIT_MS) * (0.75 + Math.random() / 2);
}

/** Sends what is in the outbox: in order per recipient, recipients in parallel. */
export function createDeliveryWorker(options: DeliveryWorkerOptions): DeliveryWorker {
  const { store, queue, clock, log } = options;
  const active = new Map<string, Promise<void>>();
  const stopping = new AbortController();
  let running = false;
  let fetching = false;
  let wanted = false;
  let unsubscribe: (() => void) | undefined;

  const sendChunk = async (delivery: DeliveryRecord, index: number): Promise<SendResult> => {
    const loaded = options.channels().get(delivery.route.channel);
    if (!loaded) return { status: "failed", reason: `the channel "${delivery.route.channel}" is no longer configured` };
    const { to, thread } = delivery.route;
    const message = { to, text: delivery.chunks[index] as string, idempotencyKey: `${delivery.id}.${index}`, ...(thread === undefined ? {} : { thread }) };
    try {
      return await loaded.channel.send(message, AbortSignal.any([stopping.signal, AbortSignal.timeout(SEND_TIMEOUT_MS)]));
    } catch (error) {
      const { code, name } = safeError(error);
      return { status: "retry", reason: `sending failed (${code ?? name})` };
    }
  };

  const end = async (job: Job, delivery: DeliveryRecord, status: DeliveryStatus, reason?: string): Promise<void> => {
    const now = clock.now();
    await store.commit((tx) => {
      tx.updateDelivery(delivery.id, { status, attempts: delivery.attempts, endedAt: now, ...(reason === undefined ? {} : { error: { code: status, message: reason } }) });
      tx.completeJob(job);
    }, job);
    log[status === "delivered" ? "info" : "warn"]({ deliveryId: delivery.id, channel: delivery.route.channel, status, reason }, "a delivery ended");
    options.onOutcome?.({ id: delivery.id, channel: delivery.route.channel, status });
  };

  const later = async (job: Job, delivery: DeliveryRecord, result: Extract<SendResult, { status: "retry" }>): Promise<void> => {
    const nextAt = clock.now() + waitMs(delivery.attempts, result);
    if (delivery.attempts >= MAX_ATTEMPTS || nextAt - job.enqueuedAt > options.maxAgeMs()) {
      return end(job, delivery, "failed", `given up after ${delivery.attempts} attempts: ${result.reason}`);
    }
    await store.commit((tx) => {
      tx.updateDelivery(delivery.id, { attempts: delivery.attempts, nextAt, error: { code: "retry", message: result.reason } });
      tx.retryJob(job, nextAt);
    }, job);
  };

  const deliver = async (job: Job): Promise<void> => {
    const found = await store.getDelivery((job.data as DeliveryJob).deliveryId);
    if (!found || found.status !== "pending") {
      await store.commit((tx) => tx.completeJob(job), job);
      return;
    }
    const delivery = { ...found, attempts: found.attempts + 1, messageIds: [...found.messageIds] };
    for (let index = delivery.nextChunk; index < delivery.chunks.length; index++) {
      const result = await sendChunk(delivery, index);
      if (result.status === "retry") return later(job, delivery, result);
      if (result.status !== "sent") return end(job, delivery, result.status, result.reason);
      delivery.messageIds.push(...(result.messageIds ?? []));
      const last = index === delivery.chunks.length - 1;
      const { messageIds } = delivery;
      // What was sent is on disk before the next piece goes: a retry goes on after it.
      const held = await store.commit((tx) => tx.updateDelivery(delivery.id, { nextChunk: index + 1, messageIds, attempts: delivery.attempts, ...(last ? { status: "delivered" as const, endedAt: clock.now() } : {}) }), job);
      if (!held) return;
    }
    await end(job, delivery, "delivered");
  };

  const begin = (job: Job): void => {
    const done = deliver(job)
      .catch(async (error: unknown) => {
        log.error({ err: safeError(error), jobId: job.id }, "a delivery could not be carried out; it is put back");
        await store.commit((tx) => tx.retryJob(job, clock.now() + FIRST_WAIT_MS), job).catch(() => undefined);
      })
      .finally(() => {
        active.delete(job.id);
        if (running) void fill();
      });
    active.set(job.id, done);
  };

  const fill = async (): Promise<void> => {
    wanted = true;
    if (fetching) return;
    fetching = true;
    try {
      while (wanted && running && active.size < PARALLEL) {
        wanted = false;
        const jobs = await queue.fetch("delivery", PARALLEL - active.size);
        for (const job of jobs) begin(job);
        if (jobs.length > 0) wanted = true;
      }
    } catch (error) {
      log.error({ err: safeError(error) }, "the outbox could not be read; it is tried again");
      void clock.sleep(1000).then(() => (running ? fill() : undefined));
    } finally {
      fetching = false;
    }
  };

  return {
    start() {
      running = true;
      unsubscribe = queue.onReady((kind) => {
        if (kind === "delivery") void fill();
      });
      void fill();
    },
    async stop() {
      running = false;
      unsubscribe?.();
      await Promise.race([Promise.all(active.values()), clock.sleep(STOP_MS)]);
      stopping.abort();
      await Promise.all(active.values());
    },
    async retry(id) {
      const delivery = await store.getDelivery(id);
      if (!delivery) return { ok: false, failure: { code: "not_found", message: "there is no delivery with this id" } };
      if (delivery.status !== "failed" && delivery.status !== "unknown") {
        return { ok: false, failure: { code: "invalid_body", message: `only a delivery that failed can be sent again; this one is ${delivery.status}` } };
      }
      await store.commit((tx) => {
        tx.updateDelivery(id, { status: "pending", attempts: 0, nextAt: clock.now() });
        tx.enqueue(jobOf(id, delivery.route, clock.now()));
      });
      return { ok: true, delivery: (await store.getDelivery(id)) ?? delivery };
    },
  };
}
