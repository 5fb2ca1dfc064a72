import { isRefusal, type Pass, type Refusal } from "../core/breaker.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import type { Metrics } from "../core/metrics.ts";
import { NO_TRACES, type Traces } from "../core/http/trace-context.ts";
import type { Channel, OutgoingMessage, SendResult } from "../contract/channel.ts";
import { LOOK_MS, type ParkingLot } from "../queue/parking-lot.ts";
import { PullWorker } from "../queue/worker.ts";
import type {
  DeliveryError,
  DeliveryRecord,
  DeliveryStatus,
  Job,
  Queue,
  Store,
} from "../store/types.ts";
import {
  planNextAsk,
  sendAsk,
  sendPiece,
  toOutcome,
  createEdit,
  hasLiveLeft,
  removeLive,
  countPieces,
  createFileSend,
} from "./send.ts";
import { CALLBACK } from "./callback.ts";
import {
  ChannelGate,
  getWaitMs,
  MAX_ASK_ATTEMPTS,
  MAX_ATTEMPTS,
  type RetriedSend,
  buildMark,
  cannotTell,
  isMarked,
  isUncertain,
} from "./tries.ts";
import {
  toSendKey,
  writeDelivery,
  type DeliveryJob,
  type DeliverySnapshot,
  createRetry,
  type RetryDelivery,
} from "./plan.ts";

const PARALLEL = 8;
const STOP_MS = 5_000;

export interface DeliveryWorker {
  start(): void;
  /** Takes no more and waits for what is being sent: five seconds, then it is cut off. What is left waits for the next start. */
  stop(): Promise<void>;
  retry: RetryDelivery;
}

export interface DeliveryWorkerOptions {
  store: Store;
  queue: Pick<Queue, "fetch" | "onReady">;
  /** The place in which deliveries wait for channels whose vendor is away. */
  parking: ParkingLot;
  /** The current one: a delivery goes out by the newest config. */
  snapshot(): DeliverySnapshot;
  /** Posts receipts. */
  callbacks: Channel;
  clock: Clock;
  log: Logger;
  /** Returns whether an approval was decided, or is gone: then its question is not sent. Default: never decided. */
  isDecided?(approvalId: string): Promise<boolean>;
  /** Default: none. */
  traces?: Traces;
  /** Default: none. */
  metrics?: Pick<Metrics, "deliveryEnded">;
}

/** Tells the breaker how a send ended. A delivery that goes on keeps its permission. */
function leave(pass: Pass | undefined, result: SendResult | undefined, signal: AbortSignal): void {
  if (result && result.status !== "sent")
    pass?.leave(toOutcome(result, signal), result.status === "retry" ? result.afterMs : undefined);
}

/**
 * Returns whether a delivery waits for a vendor that is away. Receipts go to many addresses, a question to the next
 * approver.
 */
const waitsForVendor = ({ route, ask }: DeliveryRecord): boolean =>
  route.channel !== CALLBACK && !ask?.next.length;

/** The result of sending a piece. `whole`: the rest is in it too. */
type PieceResult = SendResult & { whole?: boolean; warning?: string | undefined };
type SentPiece = Extract<PieceResult, { status: "sent" }>;

/** Sends what is in the outbox: in order per recipient, recipients in parallel. */
class DeliverySender {
  readonly worker: PullWorker;
  readonly #options: DeliveryWorkerOptions;
  readonly #gate: ChannelGate;

  constructor(options: DeliveryWorkerOptions) {
    this.#options = options;
    this.#gate = new ChannelGate(options.parking);
    this.worker = new PullWorker({
      ...options,
      kind: "delivery",
      limit: () => PARALLEL,
      execute: (job, signal) => this.#deliver(job, signal),
    });
  }

  async #deliver(job: Job, signal: AbortSignal): Promise<void> {
    const { store, traces = NO_TRACES } = this.#options;
    const found = await store.deliveries.get((job.data as DeliveryJob).deliveryId);
    if (!found || found.status !== "pending") {
      this.#options.parking.arrived(job.id);
      await store.commit((tx) => tx.jobs.settle(job), job);
      return;
    }
    const pass = waitsForVendor(found)
      ? this.#gate.enter(job, found.route.channel, found.error?.code === "retry")
      : undefined;
    if (pass && isRefusal(pass)) return this.#wait(job, found, pass);
    const delivery: DeliveryRecord = { ...found, attempts: found.attempts + 1 };
    const sendAll = (): Promise<void> =>
      this.#sendAll(job, delivery, signal, pass).finally(() => pass?.leave("none"));
    return traces.within(found.trace, sendAll);
  }

  /** Puts a delivery back until its channel's vendor takes messages again: no try is used up. */
  async #wait(job: Job, delivery: DeliveryRecord, { of, until }: Refusal): Promise<void> {
    const { clock, snapshot, parking, log } = this.#options;
    const now = clock.now();
    const endsAt = job.enqueuedAt + snapshot().config.delivery.maxAge;
    const message =
      delivery.error?.code === "retry"
        ? delivery.error.message
        : `the channel ${of} takes no messages now`;
    if (now >= endsAt) {
      parking.arrived(job.id);
      return this.#end(job, delivery, "failed", {
        code: "given_up",
        message: `not sent within delivery.maxAge: ${message}`,
      });
    }
    const held = await this.worker.commit(job, (tx) => {
      tx.deliveries.update(delivery.id, {
        attempts: delivery.attempts,
        nextAt: until,
        error: { code: "retry", message },
        ...buildMark(delivery),
      });
      tx.jobs.settle(job, Math.min(now + LOOK_MS, endsAt), { resetAttempts: true });
    });
    if (held) parking.park(job, [of]);
    log.debug(
      { deliveryId: delivery.id, runId: delivery.runId, channel: of },
      "a delivery waits for its channel",
    );
  }

  async #sendAll(
    job: Job,
    delivery: DeliveryRecord,
    signal: AbortSignal,
    pass: Pass | undefined,
  ): Promise<void> {
    const { store, snapshot, clock } = this.#options;
    const asked =
      delivery.ask?.ends === undefined ? undefined : await store.deliveries.get(delivery.ask.ends);
    const problem = await this.#findAskProblem(delivery, asked);
    if (problem !== undefined)
      return this.#end(job, delivery, "failed", { code: "decided", message: problem });
    // Tries that ended with the process leave no other trace than their starts.
    if (job.attempts > MAX_ATTEMPTS)
      return this.#end(job, delivery, "failed", {
        code: "crashed",
        message: `started ${MAX_ATTEMPTS} times without coming to an end`,
      });
    let progress = false;
    let doubt = delivery.sendingSince;
    while (delivery.nextChunk < countPieces(delivery)) {
      if (!this.worker.isRunning) {
        if (doubt === undefined) delete delivery.sendingSince;
        return this.#later(
          job,
          delivery,
          { status: "retry", reason: "the gateway stopped", afterMs: 0 },
          progress,
          true,
        );
      }
      if (!(await this.worker.confirm(job, signal)) || !(await this.#mark(job, delivery))) return;
      const result = await this.#send(delivery, asked, doubt, signal);
      leave(pass, result, signal);
      // An answer says how this try ended, but nothing of one before that is in doubt.
      if (doubt === undefined && !isUncertain(result)) delete delivery.sendingSince;
      if (result?.status !== "sent") return this.#stopAt(job, delivery, result, progress, signal);
      progress = true;
      doubt = undefined;
      if (!(await this.#keepSent(job, delivery, result))) return;
    }
    const channel = snapshot().channels.get(delivery.route.channel)?.channel;
    const left = await removeLive(delivery, channel, { clock, signal, tries: job.attempts });
    if (left) return this.#laterOrWait(job, delivery, left, progress, signal);
    pass?.leave("ok");
    await this.#end(job, delivery, "delivered", null);
  }

  /** Writes that a piece was sent before the next one goes, so that a retry goes on after it. The last one is written with the end. */
  async #keepSent(job: Job, delivery: DeliveryRecord, result: SentPiece): Promise<boolean> {
    // Buttons carry the whole question.
    delivery.nextChunk = result.whole ? countPieces(delivery) : delivery.nextChunk + 1;
    if (result.warning !== undefined)
      delivery.warnings = [...(delivery.warnings ?? []), result.warning];
    delivery.messageIds = [...delivery.messageIds, ...(result.messageIds ?? [])];
    const { nextChunk, messageIds, attempts, warnings } = delivery;
    const isLast = nextChunk === countPieces(delivery);
    if (isLast && !hasLiveLeft(delivery)) return true;
    if (isLast) delete delivery.sendingSince;
    else if (isMarked(delivery)) delivery.sendingSince = this.#options.clock.now();
    const change = {
      nextChunk,
      messageIds,
      attempts,
      ...(warnings && { warnings }),
      ...buildMark(delivery),
    };
    return this.worker.commit(job, (tx) => tx.deliveries.update(delivery.id, change));
  }

  /** Puts a delivery back or ends it, at a piece that was not sent. */
  #stopAt(
    job: Job,
    delivery: DeliveryRecord,
    result: Exclude<SendResult, { status: "sent" }> | undefined,
    progress: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    if (!result)
      return this.#end(job, delivery, "failed", {
        code: "no_such_channel",
        message: `the channel is no longer configured: add channels.${delivery.route.channel} and retry the delivery`,
      });
    if (result.status === "retry")
      return this.#laterOrWait(job, delivery, result, progress, signal);
    const code = result.status === "failed" ? "refused" : "unknown";
    return this.#end(job, delivery, result.status, { code, message: result.reason });
  }

  /** Writes that a piece is about to be sent: a start that follows a crash knows that it may have arrived. */
  async #mark(job: Job, delivery: DeliveryRecord): Promise<boolean> {
    if (!isMarked(delivery) || delivery.sendingSince !== undefined) return true;
    delivery.sendingSince = this.#options.clock.now();
    return this.worker.commit(job, (tx) => tx.deliveries.update(delivery.id, buildMark(delivery)));
  }

  /**
   * Returns the reason that a question, or its end, is not sent any more. `asked` is the question whose buttons are to
   * go.
   */
  async #findAskProblem(
    { ask }: DeliveryRecord,
    asked: DeliveryRecord | undefined,
  ): Promise<string | undefined> {
    if (!ask) return undefined;
    if (ask.ends !== undefined)
      return asked?.messageIds.length
        ? undefined
        : "no message of the question is known, so none is changed";
    const isDecided = await this.#options.isDecided?.(ask.approvalId);
    return isDecided ? "the approval was decided before it was asked about" : undefined;
  }

  async #send(
    delivery: DeliveryRecord,
    asked: DeliveryRecord | undefined,
    doubt: number | undefined,
    signal: AbortSignal,
  ): Promise<PieceResult | undefined> {
    const { callbacks, snapshot, clock, store } = this.#options;
    const { channel: id, to, thread, replyTo } = delivery.route;
    const channel = id === CALLBACK ? callbacks : snapshot().channels.get(id)?.channel;
    if (!channel || to === undefined) return undefined;
    const sendOnce = (call: (until: AbortSignal) => Promise<SendResult>): Promise<SendResult> =>
      this.#inSpan(delivery, () => sendPiece(call, clock, signal));
    const asking = sendAsk(delivery, channel, asked);
    if (asking) return { ...(await sendOnce(asking)), whole: true };
    const { nextChunk: chunk } = delivery;
    const message: OutgoingMessage = {
      to,
      text: delivery.chunks[chunk] ?? "",
      ...toSendKey(delivery, chunk),
    };
    if (thread !== undefined) message.thread = thread;
    if (replyTo !== undefined) message.replyTo = replyTo;
    const file = createFileSend(delivery, message, { channel, store });
    const edit = file ? undefined : createEdit(delivery, channel, message);
    const edited = edit && (await sendOnce(edit));
    if (edited && edited.status !== "failed") return edited;
    if (doubt === undefined) {
      const result = await sendOnce(file?.send ?? ((until) => channel.send(message, until)));
      return { ...result, warning: file?.warning };
    }
    // No channel can find a file again.
    if (file || !channel.resend) return cannotTell(id, doubt);
    return sendOnce(
      async (until) => (await channel.resend?.(message, doubt, until)) ?? cannotTell(id, doubt),
    );
  }

  /** Makes one attempt to send a piece, within a span. */
  async #inSpan(
    { id, runId, route: { channel }, attempts, nextChunk }: DeliveryRecord,
    send: () => Promise<SendResult>,
  ): Promise<SendResult> {
    const attributes = {
      "rouse.delivery.id": id,
      "rouse.run.id": runId,
      "rouse.channel": channel,
      "rouse.delivery.attempt": attempts,
      "rouse.delivery.chunk": nextChunk,
    };
    const { traces = NO_TRACES } = this.#options;
    return traces.span(
      `deliver ${channel}`,
      attributes,
      async (span) => {
        const result = await send();
        span.set({ "rouse.delivery.status": result.status });
        if (result.status !== "sent") span.fail(result.status);
        return result;
      },
      { kind: "client" },
    );
  }

  /** Puts a delivery back whose send failed: to wait for its channel if that is away, else for its next try. */
  #laterOrWait(
    job: Job,
    delivery: DeliveryRecord,
    result: RetriedSend,
    progress: boolean,
    { aborted }: AbortSignal,
  ): Promise<void> {
    const { parking, clock } = this.#options;
    const { channel: of } = delivery.route;
    if (aborted || !waitsForVendor(delivery) || !parking.breaker.isOpen(of))
      return this.#later(job, delivery, result, progress, aborted);
    return this.#wait(
      job,
      { ...delivery, error: { code: "retry", message: result.reason } },
      { of, until: clock.now() },
    );
  }

  /** Puts a delivery back; `progress` says that this start has sent a piece. */
  async #later(
    job: Job,
    delivery: DeliveryRecord,
    result: RetriedSend,
    progress: boolean,
    stopped: boolean,
  ): Promise<void> {
    const { clock, log, snapshot } = this.#options;
    const now = clock.now();
    const runAt = stopped ? now : now + getWaitMs(progress ? 1 : job.attempts, result);
    const message = result.reason;
    const most = delivery.ask?.next.length ? MAX_ASK_ATTEMPTS : MAX_ATTEMPTS;
    if (!stopped && !progress && job.attempts >= most) {
      return this.#end(job, delivery, "failed", {
        code: "given_up",
        message: `given up after ${most} tries: ${message}`,
      });
    }
    if (!stopped && runAt > job.enqueuedAt + snapshot().config.delivery.maxAge) {
      return this.#end(job, delivery, "failed", {
        code: "given_up",
        message: `not sent within delivery.maxAge: ${message}`,
      });
    }
    const { id, runId, route, attempts } = delivery;
    await this.worker.commit(job, (tx) => {
      tx.deliveries.update(id, {
        attempts,
        nextAt: runAt,
        error: { code: "retry", message },
        ...buildMark(delivery),
      });
      tx.jobs.settle(job, runAt, { resetAttempts: progress });
    });
    log.info(
      { deliveryId: id, runId, channel: route.channel, reason: message, waitMs: runAt - now },
      "a delivery waits for its next try",
    );
  }

  async #end(
    job: Job,
    delivery: DeliveryRecord,
    status: DeliveryStatus,
    error: DeliveryError | null,
  ): Promise<void> {
    const { clock, log, metrics, store, snapshot } = this.#options;
    const { id, runId, nextChunk, messageIds, attempts, warnings } = delivery;
    const { channel } = delivery.route;
    const isUnreachable = status !== "delivered" && error?.code !== "decided";
    const next = isUnreachable
      ? await planNextAsk(delivery, { store, channels: snapshot().channels, now: clock.now() })
      : undefined;
    // A delivery that an operator sends again still has to be looked for; any other end answers the question.
    const mark = status === "failed" ? buildMark(delivery) : { sendingSince: null };
    const done = await this.worker.commit(job, (tx) => {
      const ended = {
        status,
        nextChunk,
        messageIds,
        attempts,
        error,
        endedAt: clock.now(),
        ...(warnings && { warnings }),
        ...mark,
      };
      tx.deliveries.update(id, ended);
      if (next) writeDelivery(tx, next);
      tx.jobs.settle(job);
    });
    if (!done) return;
    log[status === "delivered" ? "info" : "warn"](
      { deliveryId: id, runId, channel, status, attempts, reason: error?.message },
      "a delivery ended",
    );
    metrics?.deliveryEnded({ channel, status });
    if (!isUnreachable || !delivery.ask || delivery.ask.ends !== undefined) return;
    const about = {
      approvalId: delivery.ask.approvalId,
      runId,
      next: next?.delivery.route.channel,
    };
    if (next) log.warn(about, "an approver could not be asked: the next one is");
    else log.error(about, "no approver could be asked on a channel: decide with `rouse approvals`");
  }
}

/** Sends deliveries, and again if an operator says so. */
export function createDeliveryWorker(options: DeliveryWorkerOptions): DeliveryWorker {
  const { worker } = new DeliverySender(options);
  return {
    start: () => worker.start(),
    stop: () => worker.stop(STOP_MS),
    retry: createRetry(options),
  };
}
