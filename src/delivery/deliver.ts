import { backOff } from "../core/backoff.ts";
import { isRefusal, type CallOutcome, type Pass, type Refusal } from "../core/breaker.ts";
import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Channel, OutgoingMessage, SendResult } from "../contract/channel.ts";
import type { Telemetry } from "../telemetry/types.ts";
import { endWait, LOOK_MS, type ParkingLot } from "../queue/parking-lot.ts";
import { createPullWorker, type PullWorker } from "../queue/worker.ts";
import { deliveryState, NO_ROUTE } from "../store/types.ts";
import type { DeliveryError, DeliveryRecord, DeliveryStatus, Job, Queue, Route, Store } from "../store/types.ts";
import { planNextAsk, sendAsk } from "./ask.ts";
import { CALLBACK } from "./callback.ts";
import { ChannelGate } from "./channel-gate.ts";
import { resolveRoute } from "./last-route.ts";
import { deliveryJob, splitFor, writeDelivery, type DeliveryJob } from "./plan.ts";
import { sendPiece } from "./send.ts";
import type { Channels } from "./types.ts";

/** Tries of one piece; a piece that got through starts the count again. */
const MAX_ATTEMPTS = 12;
/** Tries of a question if there is another person to ask: about half a minute. */
const MAX_ASK_ATTEMPTS = 5;
/** The waits between attempts to send. */
const SEND = { firstMs: 1_000, longestMs: 900_000 };
const PARALLEL = 8;
const STOP_MS = 5_000;

export interface DeliveryWorker {
  start(): void;
  /** Takes no more and waits for what is being sent: five seconds, then it is cut off. What is left waits for the next start. */
  stop(): Promise<void>;
  /**
   * Sends a delivery again that failed or whose outcome is unknown, from the first piece that was not sent. For a reply that
   * had no route one is looked for: fails and changes nothing if there is still none.
   */
  retry(id: string): Promise<{ ok: true; delivery: DeliveryRecord } | { ok: false; failure: Failure }>;
}

export interface DeliveryWorkerOptions {
  store: Pick<Store, "commit" | "get" | "list">;
  queue: Pick<Queue, "fetch" | "onReady">;
  /** Where deliveries wait for channels whose vendor is away. */
  parking: ParkingLot;
  /** The current channels: a delivery goes out by the newest config. */
  channels(): Channels;
  /** The agent whose main session has the last routes. */
  mainAgentId(): string;
  /** Posts receipts. */
  callbacks: Channel;
  /** After so long, counted from the end of the run or the operator's retry, a failed try is the last. */
  maxAgeMs(): number;
  clock: Clock;
  log: Logger;
  /** Whether an approval was decided, or is gone: then its question is not sent. Default: never decided. */
  isDecided?(approvalId: string): Promise<boolean>;
  telemetry?: Telemetry | undefined;
  onOutcome?: (delivery: { id: string; channel: string; status: DeliveryStatus }) => void;
}

type Retry = Extract<SendResult, { status: "retry" }>;

/** The channel's own wish, else doubling from one second to fifteen minutes, with jitter. */
function waitMs(attempts: number, result: Retry): number {
  if (result.afterMs !== undefined) return result.afterMs;
  return Math.min(backOff(attempts, SEND) * (1 + Math.random() / 2), SEND.longestMs);
}

/** What the result of a send says about the vendor. A vendor that names a wait limits its callers, and is not away. */
function toOutcome(result: SendResult, signal: AbortSignal): CallOutcome {
  if (signal.aborted || result.status === "unknown") return "none";
  if (result.status === "sent") return "ok";
  if (result.status === "failed") return "answered";
  return result.afterMs === undefined ? "away" : "busy";
}

/** Tells the breaker how a send ended. A delivery that goes on keeps its permission. */
function leave(pass: Pass | undefined, result: SendResult | undefined, signal: AbortSignal): void {
  if (result && result.status !== "sent") pass?.leave(toOutcome(result, signal), result.status === "retry" ? result.afterMs : undefined);
}

/** Whether a delivery waits for a vendor that is away. Receipts go to many addresses, a question to the next approver. */
const waitsForVendor = ({ route, ask }: DeliveryRecord): boolean => route.channel !== CALLBACK && !ask?.next.length;

/** Sends what is in the outbox: in order per recipient, recipients in parallel. */
class DeliverySender {
  readonly worker: PullWorker;
  readonly #options: DeliveryWorkerOptions;
  readonly #gate: ChannelGate;

  constructor(options: DeliveryWorkerOptions) {
    this.#options = options;
    this.#gate = new ChannelGate(options.parking);
    this.worker = createPullWorker({
      ...options,
      kind: "delivery",
      limit: () => PARALLEL,
      execute: (job, signal) => this.#deliver(job, signal),
    });
  }

  async #deliver(job: Job, signal: AbortSignal): Promise<void> {
    const { store, telemetry } = this.#options;
    const found = await store.get("delivery", (job.data as DeliveryJob).deliveryId);
    if (!found || found.status !== "pending") {
      endWait(job, this.#options.parking);
      await store.commit((tx) => tx.settle(job), job);
      return;
    }
    const pass = waitsForVendor(found) ? this.#gate.enter(job, found.route.channel, found.error?.code === "retry") : undefined;
    if (pass && isRefusal(pass)) return this.#wait(job, found, pass);
    const delivery: DeliveryRecord = { ...found, attempts: found.attempts + 1 };
    const sendAll = (): Promise<void> => this.#sendAll(job, delivery, signal, pass).finally(() => pass?.leave("none"));
    return telemetry ? telemetry.within(found.trace, sendAll) : sendAll();
  }

  /** Puts a delivery back until its channel's vendor takes messages again: no try is used up. */
  async #wait(job: Job, delivery: DeliveryRecord, { of, until }: Refusal): Promise<void> {
    const { clock, maxAgeMs, parking, log } = this.#options;
    const now = clock.now();
    const endsAt = job.enqueuedAt + maxAgeMs();
    const message = delivery.error?.code === "retry" ? delivery.error.message : `the channel ${of} takes no messages now`;
    if (now >= endsAt) {
      endWait(job, parking);
      return this.#end(job, delivery, "failed", { code: "given_up", message: `not sent within delivery.maxAge: ${message}` });
    }
    const held = await this.worker.commit(job, (tx) => {
      tx.update("delivery", delivery.id, { attempts: delivery.attempts, nextAt: until, error: { code: "retry", message } });
      tx.settle(job, Math.min(now + LOOK_MS, endsAt), { resetAttempts: true });
    });
    if (held) parking.park(job, [of]);
    log.debug({ deliveryId: delivery.id, runId: delivery.runId, channel: of }, "a delivery waits for its channel");
  }

  async #sendAll(job: Job, delivery: DeliveryRecord, signal: AbortSignal, pass: Pass | undefined): Promise<void> {
    const { store } = this.#options;
    const asked = delivery.ask?.ends === undefined ? undefined : await store.get("delivery", delivery.ask.ends);
    const problem = await this.#findAskProblem(delivery, asked);
    if (problem !== undefined) return this.#end(job, delivery, "failed", { code: "decided", message: problem });
    // Tries that ended with the process leave no other trace than their starts.
    if (job.attempts > MAX_ATTEMPTS)
      return this.#end(job, delivery, "failed", { code: "crashed", message: `started ${MAX_ATTEMPTS} times without coming to an end` });
    let progress = false;
    for (let text = delivery.chunks[delivery.nextChunk]; text !== undefined; text = delivery.chunks[delivery.nextChunk]) {
      if (!this.worker.isRunning)
        return this.#later(job, delivery, { status: "retry", reason: "the gateway stopped", afterMs: 0 }, progress, true);
      const { channel } = delivery.route;
      if (!(await this.worker.confirm(job, signal))) return;
      const result = await this.#send(delivery, text, asked, signal);
      leave(pass, result, signal);
      if (!result)
        return this.#end(job, delivery, "failed", {
          code: "no_such_channel",
          message: `the channel is no longer configured: add channels.${channel} and retry the delivery`,
        });
      if (result.status === "retry") return this.#laterOrWait(job, delivery, result, progress, signal);
      if (result.status !== "sent")
        return this.#end(job, delivery, result.status, {
          code: result.status === "failed" ? "refused" : "unknown",
          message: result.reason,
        });
      progress = true;
      // Buttons carry the whole question.
      delivery.nextChunk = result.whole ? delivery.chunks.length : delivery.nextChunk + 1;
      delivery.messageIds = [...delivery.messageIds, ...(result.messageIds ?? [])];
      const { nextChunk, messageIds, attempts } = delivery;
      if (nextChunk === delivery.chunks.length) break;
      // What was sent is on disk before the next piece goes: a retry goes on after it.
      if (!(await this.worker.commit(job, (tx) => tx.update("delivery", delivery.id, { nextChunk, messageIds, attempts })))) return;
    }
    pass?.leave("ok");
    await this.#end(job, delivery, "delivered", null);
  }

  /** Why a question, or its end, is not sent any more. `asked` is the question whose buttons are to go. */
  async #findAskProblem({ ask }: DeliveryRecord, asked: DeliveryRecord | undefined): Promise<string | undefined> {
    if (!ask) return undefined;
    if (ask.ends !== undefined) return asked?.messageIds.length ? undefined : "no message of the question is known, so none is changed";
    const isDecided = await this.#options.isDecided?.(ask.approvalId);
    return isDecided ? "the approval was decided before it was asked about" : undefined;
  }

  async #send(
    delivery: DeliveryRecord,
    text: string,
    asked: DeliveryRecord | undefined,
    signal: AbortSignal,
  ): Promise<(SendResult & { whole?: boolean }) | undefined> {
    const { callbacks, channels, clock, telemetry } = this.#options;
    const { channel: id, to, thread, replyTo } = delivery.route;
    const channel = id === CALLBACK ? callbacks : channels().get(id)?.channel;
    if (!channel || to === undefined) return undefined;
    const { id: deliveryId, runId, attempts: attempt, nextChunk: chunk } = delivery;
    const traced = (send: () => Promise<SendResult>): Promise<SendResult> =>
      telemetry ? telemetry.send({ deliveryId, runId, channel: id, attempt, chunk }, send) : send();
    const asking = sendAsk(delivery, channel, asked);
    if (asking) return { ...(await traced(() => sendPiece(asking, clock, signal))), whole: true };
    const message: OutgoingMessage = { to, text, idempotencyKey: `${delivery.id}.${delivery.nextChunk}` };
    if (thread !== undefined) message.thread = thread;
    if (replyTo !== undefined) message.replyTo = replyTo;
    return traced(() => sendPiece((until) => channel.send(message, until), clock, signal));
  }

  /** Puts a delivery back whose send failed: to wait for its channel if that is away, else for its next try. */
  #laterOrWait(job: Job, delivery: DeliveryRecord, result: Retry, progress: boolean, { aborted }: AbortSignal): Promise<void> {
    const { parking, clock } = this.#options;
    const { channel: of } = delivery.route;
    if (aborted || !waitsForVendor(delivery) || !parking.breaker.isOpen(of)) return this.#later(job, delivery, result, progress, aborted);
    return this.#wait(job, { ...delivery, error: { code: "retry", message: result.reason } }, { of, until: clock.now() });
  }

  /** Puts a delivery back; `progress` says that this start has sent a piece. */
  async #later(job: Job, delivery: DeliveryRecord, result: Retry, progress: boolean, stopped: boolean): Promise<void> {
    const { clock, log, maxAgeMs } = this.#options;
    const now = clock.now();
    const runAt = stopped ? now : now + waitMs(progress ? 1 : job.attempts, result);
    const message = result.reason;
    const most = delivery.ask?.next.length ? MAX_ASK_ATTEMPTS : MAX_ATTEMPTS;
    if (!stopped && !progress && job.attempts >= most) {
      return this.#end(job, delivery, "failed", { code: "given_up", message: `given up after ${most} tries: ${message}` });
    }
    if (!stopped && runAt > job.enqueuedAt + maxAgeMs()) {
      return this.#end(job, delivery, "failed", { code: "given_up", message: `not sent within delivery.maxAge: ${message}` });
    }
    const { id, runId, route, attempts } = delivery;
    await this.worker.commit(job, (tx) => {
      tx.update("delivery", id, { attempts, nextAt: runAt, error: { code: "retry", message } });
      tx.settle(job, runAt, { resetAttempts: progress });
    });
    log.info({ deliveryId: id, runId, channel: route.channel, reason: message, waitMs: runAt - now }, "a delivery waits for its next try");
  }

  async #end(job: Job, delivery: DeliveryRecord, status: DeliveryStatus, error: DeliveryError | null): Promise<void> {
    const { clock, log, onOutcome, store, channels } = this.#options;
    const { id, runId, nextChunk, messageIds, attempts } = delivery;
    const { channel } = delivery.route;
    const isUnreachable = status !== "delivered" && error?.code !== "decided";
    const next = isUnreachable ? await planNextAsk(delivery, { store, channels: channels(), now: clock.now() }) : undefined;
    const done = await this.worker.commit(job, (tx) => {
      tx.update("delivery", id, { status, nextChunk, messageIds, attempts, error, endedAt: clock.now() });
      if (next) writeDelivery(tx, next);
      tx.settle(job);
    });
    if (!done) return;
    log[status === "delivered" ? "info" : "warn"](
      { deliveryId: id, runId, channel, status, attempts, reason: error?.message },
      "a delivery ended",
    );
    onOutcome?.({ id, channel, status });
    if (!isUnreachable || !delivery.ask || delivery.ask.ends !== undefined) return;
    const about = { approvalId: delivery.ask.approvalId, runId, next: next?.delivery.route.channel };
    if (next) log.warn(about, "an approver could not be asked: the next one is");
    else log.error(about, "no approver could be asked on a channel: decide with `rouse approvals`");
  }
}

/** Queues deliveries again that failed, for an operator. */
function createRetry(options: DeliveryWorkerOptions): DeliveryWorker["retry"] {
  const { store, clock } = options;

  /** Looks for a route for a reply that has none; the reply is split again for its channel. */
  const findRoute = async ({ route: { channel, to }, chunks }: DeliveryRecord): Promise<{ route: Route; chunks: string[] } | string> => {
    const channels = options.channels();
    const target = to === undefined ? { channel } : { channel, to };
    const found = await resolveRoute({ store, channels, agentId: options.mainAgentId(), ...target });
    if (found.status !== "route") return found.reason;
    return { route: found.route, chunks: splitFor(found.route, chunks.join(""), channels) };
  };

  return async (id) => {
    const delivery = await store.get("delivery", id);
    if (!delivery) return { ok: false, failure: { code: "not_found", message: "there is no delivery with this id" } };
    if (delivery.status !== "failed" && delivery.status !== "unknown") {
      return {
        ok: false,
        failure: { code: "not_retryable", message: `only a delivery that failed can be sent again; this one is ${delivery.status}` },
      };
    }
    const routed = deliveryState(delivery) === NO_ROUTE ? await findRoute(delivery) : undefined;
    if (typeof routed === "string") return { ok: false, failure: { code: "no_route", message: `there is still no route: ${routed}` } };
    await store.commit((tx) => {
      tx.update("delivery", id, { ...routed, status: "pending", attempts: 0, nextAt: clock.now(), error: null, endedAt: null });
      if (routed) tx.update("run", delivery.runId, { route: { status: "route", route: routed.route } });
      tx.add("job", deliveryJob(id, routed?.route ?? delivery.route, clock.now()));
    });
    return { ok: true, delivery: (await store.get("delivery", id)) ?? delivery };
  };
}

/** Sends deliveries, and again if an operator says so. */
export function createDeliveryWorker(options: DeliveryWorkerOptions): DeliveryWorker {
  const { worker } = new DeliverySender(options);
  return { start: () => worker.start(), stop: () => worker.stop(STOP_MS), retry: createRetry(options) };
}
