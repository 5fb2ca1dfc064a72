import type { Clock } from "../core/clock.ts";
import type { Failure } from "../core/errors.ts";
import { deliveryState, NO_ROUTE } from "../store/types.ts";
import type { DeliveryRecord, Route, Store } from "../store/types.ts";
import { resolveRoute } from "./last-route.ts";
import { deliveryJob, splitFor } from "./plan.ts";
import type { Channels } from "./types.ts";

/**
 * Sends a delivery again that failed or whose outcome is unknown, from the first piece that was not sent. For a reply that
 * had no route one is looked for: fails and changes nothing if there is still none. `arrived`: an operator has seen the piece
 * whose outcome is unknown in the chat, so the delivery goes on after it.
 */
export type RetryDelivery = (
  id: string,
  options?: { arrived?: boolean },
) => Promise<{ ok: true; delivery: DeliveryRecord } | { ok: false; failure: Failure }>;

export interface DeliveryRetryOptions {
  store: Pick<Store, "commit" | "get" | "list">;
  channels(): Channels;
  mainAgentId(): string;
  clock: Clock;
}

/** Leaves out the piece that has arrived, and keeps why. */
const skipPiece = ({
  nextChunk,
  warnings = [],
}: DeliveryRecord): Pick<DeliveryRecord, "nextChunk" | "warnings"> => ({
  nextChunk: nextChunk + 1,
  warnings: [
    ...warnings,
    `message ${nextChunk + 1} was not sent again: an operator said that it had arrived`,
  ],
});

/** Queues deliveries again that failed, for an operator. */
export function createRetry(options: DeliveryRetryOptions): RetryDelivery {
  const { store, clock } = options;

  /** Looks for a route for a reply that has none; the reply is split again for its channel. */
  const findRoute = async ({
    route: { channel, to },
    chunks,
  }: DeliveryRecord): Promise<{ route: Route; chunks: string[] } | string> => {
    const channels = options.channels();
    const target = to === undefined ? { channel } : { channel, to };
    const found = await resolveRoute({
      store,
      channels,
      agentId: options.mainAgentId(),
      ...target,
    });
    if (found.status !== "route") return found.reason;
    return { route: found.route, chunks: splitFor(found.route, chunks.join(""), channels) };
  };

  return async (id, { arrived = false } = {}) => {
    const delivery = await store.get("delivery", id);
    if (!delivery)
      return {
        ok: false,
        failure: { code: "not_found", message: "there is no delivery with this id" },
      };
    if (delivery.status !== "failed" && delivery.status !== "unknown") {
      return {
        ok: false,
        failure: {
          code: "not_retryable",
          message: `only a delivery that failed can be sent again; this one is ${delivery.status}`,
        },
      };
    }
    if (arrived && delivery.status !== "unknown") {
      const message =
        "nothing of this delivery is in doubt, so nothing can have arrived: retry it without `arrived`";
      return { ok: false, failure: { code: "not_retryable", message } };
    }
    const routed = deliveryState(delivery) === NO_ROUTE ? await findRoute(delivery) : undefined;
    if (typeof routed === "string")
      return {
        ok: false,
        failure: { code: "no_route", message: `there is still no route: ${routed}` },
      };
    await store.commit((tx) => {
      const reset = {
        status: "pending",
        attempts: 0,
        resent: false,
        nextAt: clock.now(),
        error: null,
        endedAt: null,
      } as const;
      tx.update("delivery", id, { ...routed, ...reset, ...(arrived && skipPiece(delivery)) });
      if (routed)
        tx.update("run", delivery.runId, { route: { status: "route", route: routed.route } });
      tx.add("job", deliveryJob(id, routed?.route ?? delivery.route, clock.now()));
    });
    return { ok: true, delivery: (await store.get("delivery", id)) ?? delivery };
  };
}
