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
  Ms,
  Queue,
  Store,
} from "../store/types.ts";
import { planNextAsk, sendAsk } from "./ask.ts";
import {
  buildMark,
  cannotTell,
  ChannelGate,
  countPieces,
  createEdit,
  createFileSend,
  getWaitMs,
  hasLiveLeft,
  isMarked,
  isUncertain,
  MAX_ASK_ATTEMPTS,
  MAX_ATTEMPTS,
  removeLive,
  sendPiece,
  toOutcome,
  type RetriedSend,
} from "./send.ts";
import { CALLBACK } from "./callback.ts";
import {
  toSendKey,
  writeDelivery,
  type DeliveryJob,
  type DeliverySnapshot,
  createRetry,
} from "./plan.ts";

const PARALLEL = 8;
const STOP_MS = 5_000;

export type DeliveryWorker = ReturnType<typeof createDeliveryWorker>;

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

/** One start of a delivery: from its next piece to its end, or until it is put back. */
class DeliveryStart {
  readonly #options: DeliveryWorkerOptions;
  readonly #worker: PullWorker;
  readonly #job: Job;
  readonly #delivery: DeliveryRecord;
  readonly #signal: AbortSignal;
  /** True once this start has sent a piece. */
  #hasProgress = false;

  constructor(
    { options, worker }: { options: DeliveryWorkerOptions; worker: PullWorker },
    job: Job,
    delivery: DeliveryRecord,
    signal: AbortSignal,
  ) {
    this.#options = options;
    this.#worker = worker;
    this.#job = job;
    this.#delivery = { ...delivery };
    this.#signal = signal;
  }

  /** Sends what is left. `pass`: the permission of the channel, if it needs one. */
  async run(pass: Pass | undefined): Promise<void> {
    const { store, snapshot, clock } = this.#options;
    const [delivery, job, signal] = [this.#delivery, this.#job, this.#signal];
    delivery.attempts++;
    const ends = delivery.ask?.ends;
    const asked = ends === undefined ? undefined : await store.deliveries.get(ends);
    const problem = await this.#findAskProblem(asked);
    if (problem !== undefined) return this.#end("failed", { code: "decided", message: problem });
    // Tries that ended with the process leave no other trace than their starts.
    if (job.attempts > MAX_ATTEMPTS)
      return this.#end("failed", {
        code: "crashed",
        message: `started ${MAX_ATTEMPTS} times without coming to an end`,
      });
    let doubt = delivery.sendingSince;
    while (delivery.nextChunk < countPieces(delivery)) {
      if (!this.#worker.isRunning) {
        if (doubt === undefined) delete delivery.sendingSince;
        return this.#later({ status: "retry", reason: "the gateway stopped" }, true);
      }
      if (!(await this.#worker.confirm(job, signal)) || !(await this.#mark())) return;
      const result = await this.#send(asked, doubt);
      leave(pass, result, signal);
      // An answer says how this try ended, but nothing of one before that is in doubt.
      if (doubt === undefined && !isUncertain(result)) delete delivery.sendingSince;
      if (result?.status !== "sent") return this.#stopAt(result);
      this.#hasProgress = true;
      doubt = undefined;
      if (!(await this.#keepSent(result))) return;
    }
    const channel = snapshot().channels.get(delivery.route.channel)?.channel;
    const left = await removeLive(delivery, channel, { clock, signal, tries: job.attempts });
    if (left) return this.#stopAt(left);
    pass?.leave("ok");
    await this.#end("delivered", null);
  }

  /** Puts the delivery back until its channel's vendor takes messages again: no try is used up. */
  async wait({ of, until }: Refusal, reason?: string): Promise<void> {
    const { clock, snapshot, parking, log } = this.#options;
    const { id: deliveryId, runId, error } = this.#delivery;
    const now = clock.now();
    const endsAt = this.#job.enqueuedAt + snapshot().config.delivery.maxAge;
    const before = error?.code === "retry" ? error.message : undefined;
    const message = reason ?? before ?? `the channel ${of} takes no messages now`;
    if (now >= endsAt) {
      parking.arrived(this.#job.id);
      return this.#giveUp(TOO_OLD, message);
    }
    const runAt = Math.min(now + LOOK_MS, endsAt);
    if (await this.#putBack(message, { nextAt: until, runAt, resetAttempts: true }))
      parking.park(this.#job, [of]);
    log.debug({ deliveryId, runId, channel: of }, "a delivery waits for its channel");
  }

  /** Writes that a piece was sent before the next one goes, so that a retry goes on after it. The last one is written with the end. */
  async #keepSent({ whole, warning, messageIds: sent = [] }: SentPiece): Promise<boolean> {
    const delivery = this.#delivery;
    // Buttons carry the whole question.
    delivery.nextChunk = whole ? countPieces(delivery) : delivery.nextChunk + 1;
    if (warning !== undefined) delivery.warnings = [...(delivery.warnings ?? []), warning];
    delivery.messageIds = [...delivery.messageIds, ...sent];
    const isLast = delivery.nextChunk === countPieces(delivery);
    if (isLast && !hasLiveLeft(delivery)) return true;
    if (isLast) delete delivery.sendingSince;
    else if (isMarked(delivery)) delivery.sendingSince = this.#options.clock.now();
    const change = { ...toProgress(delivery), ...buildMark(delivery) };
    return this.#worker.commit(this.#job, (tx) => tx.deliveries.update(delivery.id, change));
  }

  /** Puts the delivery back or ends it, at a piece that was not sent: it waits for its channel if that is away. */
  #stopAt(result: Exclude<SendResult, { status: "sent" }> | undefined): Promise<void> {
    const { parking, clock } = this.#options;
    const { channel: of } = this.#delivery.route;
    if (!result)
      return this.#end("failed", {
        code: "no_such_channel",
        message: `the channel is no longer configured: add channels.${of} and retry the delivery`,
      });
    const { status, reason: message } = result;
    if (status !== "retry")
      return this.#end(status, { code: status === "failed" ? "refused" : "unknown", message });
    const isAway = waitsForVendor(this.#delivery) && parking.breaker.isOpen(of);
    return isAway && !this.#signal.aborted
      ? this.wait({ of, until: clock.now() }, message)
      : this.#later(result, this.#signal.aborted);
  }

  /** Writes that a piece is about to be sent: a start that follows a crash knows that it may have arrived. */
  async #mark(): Promise<boolean> {
    const delivery = this.#delivery;
    if (!isMarked(delivery) || delivery.sendingSince !== undefined) return true;
    delivery.sendingSince = this.#options.clock.now();
    const change = buildMark(delivery);
    return this.#worker.commit(this.#job, (tx) => tx.deliveries.update(delivery.id, change));
  }

  /**
   * Returns the reason that a question, or its end, is not sent any more. `asked` is the question whose buttons are to
   * go.
   */
  async #findAskProblem(asked: DeliveryRecord | undefined): Promise<string | undefined> {
    const { ask } = this.#delivery;
    if (!ask) return undefined;
    if (ask.ends !== undefined)
      return asked?.messageIds.length
        ? undefined
        : "no message of the question is known, so none is changed";
    const isDecided = await this.#options.isDecided?.(ask.approvalId);
    return isDecided ? "the approval was decided before it was asked about" : undefined;
  }

  async #send(
    asked: DeliveryRecord | undefined,
    doubt: number | undefined,
  ): Promise<PieceResult | undefined> {
    const { callbacks, snapshot, store } = this.#options;
    const delivery = this.#delivery;
    const { channel: id, to, thread, replyTo } = delivery.route;
    const channel = id === CALLBACK ? callbacks : snapshot().channels.get(id)?.channel;
    if (!channel || to === undefined) return undefined;
    const asking = delivery.ask && sendAsk(delivery.ask, delivery, channel, asked);
    if (asking) return { ...(await this.#sendOnce(asking)), whole: true };
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
    const edited = edit && (await this.#sendOnce(edit));
    if (edited && edited.status !== "failed") return edited;
    if (doubt === undefined) {
      const result = await this.#sendOnce(file?.send ?? ((until) => channel.send(message, until)));
      return { ...result, warning: file?.warning };
    }
    // No channel can find a file again.
    if (file || !channel.resend) return cannotTell(id, doubt);
    return this.#sendOnce(
      async (until) => (await channel.resend?.(message, doubt, until)) ?? cannotTell(id, doubt),
    );
  }

  /** Makes one attempt to send a piece, within a span. */
  #sendOnce(call: (until: AbortSignal) => Promise<SendResult>): Promise<SendResult> {
    const { traces = NO_TRACES, clock } = this.#options;
    const { id, runId, route, attempts, nextChunk } = this.#delivery;
    const { channel } = route;
    const attributes = {
      "rouse.delivery.id": id,
      "rouse.run.id": runId,
      "rouse.channel": channel,
      "rouse.delivery.attempt": attempts,
      "rouse.delivery.chunk": nextChunk,
    };
    return traces.span(
      `deliver ${channel}`,
      attributes,
      async (span) => {
        const result = await sendPiece(call, clock, this.#signal);
        span.set({ "rouse.delivery.status": result.status });
        if (result.status !== "sent") span.fail(result.status);
        return result;
      },
      { kind: "client" },
    );
  }

  /** Puts the delivery back for its next try. `isStopped`: the gateway stops, which uses up no try. */
  async #later(result: RetriedSend, isStopped: boolean): Promise<void> {
    const { clock, log, snapshot } = this.#options;
    const { attempts, enqueuedAt } = this.#job;
    const { id: deliveryId, runId, route, ask } = this.#delivery;
    const now = clock.now();
    const hasProgress = this.#hasProgress;
    const runAt = isStopped ? now : now + getWaitMs(hasProgress ? 1 : attempts, result);
    const { reason } = result;
    const most = ask?.next.length ? MAX_ASK_ATTEMPTS : MAX_ATTEMPTS;
    if (!isStopped && !hasProgress && attempts >= most)
      return this.#giveUp(`given up after ${most} tries`, reason);
    if (!isStopped && runAt > enqueuedAt + snapshot().config.delivery.maxAge)
      return this.#giveUp(TOO_OLD, reason);
    await this.#putBack(reason, { nextAt: runAt, runAt, resetAttempts: hasProgress });
    log.info(
      { deliveryId, runId, channel: route.channel, reason, waitMs: runAt - now },
      "a delivery waits for its next try",
    );
  }

  #putBack(
    message: string,
    { nextAt, runAt, resetAttempts }: { nextAt: Ms; runAt: Ms; resetAttempts: boolean },
  ): Promise<boolean> {
    const { id, attempts } = this.#delivery;
    const mark = buildMark(this.#delivery);
    return this.#worker.commit(this.#job, (tx) => {
      const error = { code: "retry", message } as const;
      tx.deliveries.update(id, { attempts, nextAt, error, ...mark });
      tx.jobs.settle(this.#job, runAt, { resetAttempts });
    });
  }

  #giveUp(why: string, message: string): Promise<void> {
    return this.#end("failed", { code: "given_up", message: `${why}: ${message}` });
  }

  async #end(status: DeliveryStatus, error: DeliveryError | null): Promise<void> {
    const { clock, log, metrics, store, snapshot } = this.#options;
    const delivery = this.#delivery;
    const { id, runId, attempts, ask } = delivery;
    const { channel } = delivery.route;
    const isUnreachable = status !== "delivered" && error?.code !== "decided";
    const next = isUnreachable
      ? await planNextAsk(delivery, { store, channels: snapshot().channels, now: clock.now() })
      : undefined;
    // A delivery that an operator sends again still has to be looked for; any other end answers the question.
    const mark = status === "failed" ? buildMark(delivery) : { sendingSince: null };
    const done = await this.#worker.commit(this.#job, (tx) => {
      const endedAt = clock.now();
      tx.deliveries.update(id, { ...toProgress(delivery), status, error, endedAt, ...mark });
      if (next) writeDelivery(tx, next);
      tx.jobs.settle(this.#job);
    });
    if (!done) return;
    log[status === "delivered" ? "info" : "warn"](
      { deliveryId: id, runId, channel, status, attempts, reason: error?.message },
      "a delivery ended",
    );
    metrics?.deliveryEnded({ channel, status });
    if (!isUnreachable || !ask || ask.ends !== undefined) return;
    const about = { approvalId: ask.approvalId, runId, next: next?.delivery.route.channel };
    if (next) log.warn(about, "an approver could not be asked: the next one is");
    else log.error(about, "no approver could be asked on a channel: decide with `rouse approvals`");
  }
}

const TOO_OLD = "not sent within delivery.maxAge";

/** The part of a delivery that says how far it has come. */
const toProgress = ({ nextChunk, messageIds, attempts, warnings }: DeliveryRecord) => ({
  nextChunk,
  messageIds,
  attempts,
  ...(warnings && { warnings }),
});

/** Sends deliveries, in order per recipient, recipients in parallel; and again if an operator says so. */
export function createDeliveryWorker(options: DeliveryWorkerOptions) {
  const { store, parking, traces = NO_TRACES } = options;
  const gate = new ChannelGate(parking);
  const execute = async (job: Job, signal: AbortSignal): Promise<void> => {
    const found = await store.deliveries.get((job.data as DeliveryJob).deliveryId);
    if (found?.status !== "pending") {
      parking.arrived(job.id);
      await store.commit((tx) => tx.jobs.settle(job), job);
      return;
    }
    const { route, error, trace } = found;
    const start = new DeliveryStart({ options, worker }, job, found, signal);
    const pass = waitsForVendor(found)
      ? gate.enter(job, route.channel, error?.code === "retry")
      : undefined;
    if (pass && isRefusal(pass)) return start.wait(pass);
    return traces.within(trace, () => start.run(pass).finally(() => pass?.leave("none")));
  };
  const worker = new PullWorker({ ...options, kind: "delivery", limit: () => PARALLEL, execute });
  return {
    start: () => worker.start(),
    /** Takes no more and waits for what is being sent: five seconds, then it is cut off. What is left waits for the next start. */
    stop: () => worker.stop(STOP_MS),
    retry: createRetry(options),
  };
}
