import { backOff } from "../core/backoff.ts";
import type { Clock } from "../core/clock.ts";
import { safeError, type Failure } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Channel, OutgoingMessage, SendResult } from "../plugin/api.ts";
import { deliveryState, NO_ROUTE } from "../store/types.ts";
import type { DeliveryError, DeliveryRecord, DeliveryStatus, Job, Queue, Route, Store, Writes } from "../store/types.ts";
import { CALLBACK } from "./callback.ts";
import { resolveRoute } from "./last-route.ts";
import { deliveryJob, splitFor, type DeliveryJob } from "./plan.ts";
import { sendPiece } from "./send.ts";
import type { Channels } from "./types.ts";

/** Tries of one piece; a piece that got through starts the count again. */
const MAX_ATTEMPTS = 12;
/** The waits between attempts to send. */
const SEND = { firstMs: 1_000, longestMs: 900_000 };
/** The waits between attempts to write down what has become of a piece. */
const RECORD = { firstMs: 100, longestMs: 10_000 };
const PARALLEL = 8;
const STOP_MS = 5_000;

export interface DeliveryWorker {
  start(): void;
  /** Takes no more and waits for what is being sent: five seconds, then it is cut off. What is left waits for the next start. */
  stop(): Promise<void>;
  /**
   * Sends a delivery again that failed or of which nobody knows, from the first piece that was not sent. For a reply that
   * had no route one is looked for: fails and changes nothing if there is still none.
   */
  retry(id: string): Promise<{ ok: true; delivery: DeliveryRecord } | { ok: false; failure: Failure }>;
}

export interface DeliveryWorkerOptions {
  store: Pick<Store, "commit" | "getDelivery" | "lastRoutes">;
  queue: Pick<Queue, "fetch" | "onReady">;
  /** The channels of now: a delivery goes out by the newest config. */
  channels(): Channels;
  /** The agent whose main session has the last routes. */
  mainAgentId(): string;
  /** Where receipts go. */
  callbacks: Channel;
  /** After so long, counted from the end of the run or the operator's retry, a failed try is the last. */
  maxAgeMs(): number;
  clock: Clock;
  log: Logger;
  onOutcome?: (delivery: { id: string; channel: string; status: DeliveryStatus }) => void;
}

type Retry = Extract<SendResult, { status: "retry" }>;

/** The channel's own wish, else doubling from one second to fifteen minutes, with jitter. */
function waitMs(attempts: number, result: Retry): number {
  if (result.afterMs !== undefined) return result.afterMs;
  return Math.min(backOff(attempts, SEND) * (1 + Math.random() / 2), SEND.longestMs);
}

/** Sends what is in the outbox: in order per recipient, recipients in parallel. */
export function createDeliveryWorker(options: DeliveryWorkerOptions): DeliveryWorker {
  const { store, queue, clock, log } = options;
  const active = new Set<Promise<void>>();
  const stopping = new AbortController();
  let running = false;
  let fetching = false;
  let wanted = false;
  let unsubscribe: (() => void) | undefined;

  /**
   * Commits what has become of a piece. Tries until the store takes it, since a send that is forgotten would be made
   * again; false where the job is another's by now, or the worker stops.
   */
  const record = async (job: Job, write: (tx: Writes) => void): Promise<boolean> => {
    for (let failures = 1; ; failures++) {
      try {
        return await store.commit(write, job);
      } catch (error) {
        log.error({ err: safeError(error), deliveryId: job.id }, "what became of a delivery could not be written; it is tried again");
        if (stopping.signal.aborted) return false;
        await clock.sleep(backOff(failures, RECORD), stopping.signal);
      }
    }
  };

  const end = async (job: Job, delivery: DeliveryRecord, status: DeliveryStatus, error: DeliveryError | null): Promise<void> => {
    const { id, runId, nextChunk, messageIds, attempts } = delivery;
    const { channel } = delivery.route;
    const done = await record(job, (tx) => {
      tx.updateDelivery(id, { status, nextChunk, messageIds, attempts, error, endedAt: clock.now() });
      tx.completeJob(job);
    });
    if (!done) return;
    log[status === "delivered" ? "info" : "warn"](
      { deliveryId: id, runId, channel, status, attempts, reason: error?.message },
      "a delivery ended",
    );
    options.onOutcome?.({ id, channel, status });
  };

  /** Puts a delivery back; `progress` says that this start has sent a piece. */
  const later = async (job: Job, delivery: DeliveryRecord, result: Retry, progress: boolean): Promise<void> => {
    const now = clock.now();
    const cutOff = stopping.signal.aborted;
    const runAt = cutOff ? now : now + waitMs(progress ? 1 : job.attempts, result);
    const message = result.reason;
    if (!cutOff && !progress && job.attempts >= MAX_ATTEMPTS) {
      return end(job, delivery, "failed", { code: "given_up", message: `given up after ${MAX_ATTEMPTS} tries: ${message}` });
    }
    if (!cutOff && runAt > job.enqueuedAt + options.maxAgeMs()) {
      return end(job, delivery, "failed", { code: "given_up", message: `not sent within delivery.maxAge: ${message}` });
    }
    const { id, runId, route, attempts } = delivery;
    await record(job, (tx) => {
      tx.updateDelivery(id, { attempts, nextAt: runAt, error: { code: "retry", message } });
      tx.retryJob(job, runAt, { resetAttempts: progress });
    });
    log.info({ deliveryId: id, runId, channel: route.channel, reason: message, waitMs: runAt - now }, "a delivery waits for its next try");
  };

  const send = (delivery: DeliveryRecord, text: string): Promise<SendResult> | undefined => {
    const { channel: id, to, thread, replyTo } = delivery.route;
    const channel = id === CALLBACK ? options.callbacks : options.channels().get(id)?.channel;
    if (!channel || to === undefined) return undefined;
    const message: OutgoingMessage = { to, text, idempotencyKey: `${delivery.id}.${delivery.nextChunk}` };
    if (thread !== undefined) message.thread = thread;
    if (replyTo !== undefined) message.replyTo = replyTo;
    return sendPiece(channel, message, clock, stopping.signal);
  };

  const deliver = async (job: Job): Promise<void> => {
    const found = await store.getDelivery((job.data as DeliveryJob).deliveryId);
    if (!found || found.status !== "pending") {
      await record(job, (tx) => tx.completeJob(job));
      return;
    }
    const delivery: DeliveryRecord = { ...found, attempts: found.attempts + 1 };
    // Tries that ended with the process leave no other trace than their starts.
    if (job.attempts > MAX_ATTEMPTS)
      return end(job, delivery, "failed", { code: "crashed", message: `started ${MAX_ATTEMPTS} times without coming to an end` });
    let progress = false;
    for (let text = delivery.chunks[delivery.nextChunk]; text !== undefined; text = delivery.chunks[delivery.nextChunk]) {
      if (!running) return later(job, delivery, { status: "retry", reason: "the gateway stopped", afterMs: 0 }, progress);
      const { channel } = delivery.route;
      const result = await send(delivery, text);
      if (!result)
        return end(job, delivery, "failed", {
          code: "no_such_channel",
          message: `the channel is no longer configured: add channels.${channel} and retry the delivery`,
        });
      if (result.status === "retry") return later(job, delivery, result, progress);
      if (result.status !== "sent")
        return end(job, delivery, result.status, { code: result.status === "failed" ? "refused" : "unknown", message: result.reason });
      progress = true;
      delivery.nextChunk++;
      delivery.messageIds = [...delivery.messageIds, ...(result.messageIds ?? [])];
      const { nextChunk, messageIds, attempts } = delivery;
      if (nextChunk === delivery.chunks.length) break;
      // What was sent is on disk before the next piece goes: a retry goes on after it.
      if (!(await record(job, (tx) => tx.updateDelivery(delivery.id, { nextChunk, messageIds, attempts })))) return;
    }
    await end(job, delivery, "delivered", null);
  };

  const begin = (job: Job): void => {
    const done: Promise<void> = deliver(job)
      .catch(async (error: unknown) => {
        log.error({ err: safeError(error), deliveryId: job.id }, "a delivery could not be carried out; it is put back");
        await record(job, (tx) => tx.retryJob(job, clock.now() + SEND.firstMs));
      })
      .finally(() => {
        active.delete(done);
        if (running) void fill();
      });
    active.add(done);
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
      void clock.sleep(1000, stopping.signal).then(() => (running ? fill() : undefined));
    } finally {
      fetching = false;
    }
  };

  /** Looks for a route for a reply that has none; the reply is split anew for its channel. */
  const findRoute = async ({ route: { channel, to }, chunks }: DeliveryRecord): Promise<{ route: Route; chunks: string[] } | string> => {
    const channels = options.channels();
    const target = to === undefined ? { channel } : { channel, to };
    const found = await resolveRoute({ store, channels, agentId: options.mainAgentId(), ...target });
    if (found.status !== "route") return found.reason;
    return { route: found.route, chunks: splitFor(found.route, chunks.join(""), channels) };
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
      await Promise.race([Promise.all(active), clock.sleep(STOP_MS)]);
      stopping.abort();
      await Promise.all(active);
    },
    async retry(id) {
      const delivery = await store.getDelivery(id);
      if (!delivery) return { ok: false, failure: { code: "not_found", message: "there is no delivery with this id" } };
      if (delivery.status !== "failed" && delivery.status !== "unknown") {
        return {
          ok: false,
          failure: { code: "invalid_body", message: `only a delivery that failed can be sent again; this one is ${delivery.status}` },
        };
      }
      const routed = deliveryState(delivery) === NO_ROUTE ? await findRoute(delivery) : undefined;
      if (typeof routed === "string") return { ok: false, failure: { code: "no_route", message: `there is still no route: ${routed}` } };
      await store.commit((tx) => {
        tx.updateDelivery(id, { ...routed, status: "pending", attempts: 0, nextAt: clock.now(), error: null, endedAt: null });
        if (routed) tx.updateRun(delivery.runId, { route: { status: "route", route: routed.route } });
        tx.enqueue(deliveryJob(id, routed?.route ?? delivery.route, clock.now()));
      });
      return { ok: true, delivery: (await store.getDelivery(id)) ?? delivery };
    },
  };
}
