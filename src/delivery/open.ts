import type { Config } from "../config/schema/index.ts";
import type { Callback } from "../config/schema/limits.ts";
import type { ParkingLot } from "../queue/parking-lot.ts";
import type { PartContext } from "../store/context.ts";
import { createCallbackChannel } from "./callback.ts";
import type { Channels } from "./channels.ts";
import { createDeliveryWorker } from "./deliver.ts";
import { createChannelHealth } from "./health.ts";

/** The parts that send replies and receipts. */
export type DeliveryParts = ReturnType<typeof openDelivery>;

interface DeliveryContext extends PartContext {
  parking: ParkingLot;
  snapshot(): {
    config: Config;
    channels: Channels;
    agents: { default: { id: string } };
    mappings: { settings(id: string): { callback?: Callback } | undefined };
  };
}

/** Creates what sends replies and receipts, and starts nothing. */
export function openDelivery(context: DeliveryContext) {
  const { store, clock, metrics, snapshot } = context;
  const health = createChannelHealth({ ...context, channels: () => snapshot().channels });
  metrics.watchChannels(health.states);
  const deliveries = createDeliveryWorker({
    ...context,
    callbacks: createCallbackChannel({
      ...context,
      getCallback: (mapping) =>
        mapping === undefined
          ? snapshot().config.tools.approvalCallback
          : snapshot().mappings.settings(mapping)?.callback,
      hosts: () => snapshot().config.hooks.callbackHosts,
    }),
    isDecided: async (id) => {
      const approval = await store.approvals.get(id);
      return !approval || approval.decision !== undefined || approval.expiresAt <= clock.now();
    },
  });
  return { deliveries, health };
}
