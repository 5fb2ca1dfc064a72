import type { PartContext } from "../store/context.ts";
import { Admission } from "./admission.ts";
import { ParkingLot } from "./parking-lot.ts";
import type { AdmissionDeps } from "./types.ts";

/** The parts that decide which job may start now, and those that hold what waits for a model or a channel that is away. */
export type QueueParts = ReturnType<typeof openQueue>;

interface QueueContext extends PartContext {
  snapshot: AdmissionDeps["snapshot"];
}

export function openQueue(context: QueueContext) {
  const { cluster, metrics, ended } = context;
  const parking = new ParkingLot({
    ...context,
    signal: ended.signal,
    onAnswered: (jobId, of) => cluster.tell("answered", [JSON.stringify([jobId, of])]),
  });
  metrics.watchBreakers(parking.states);
  return { parking, admission: new Admission(context) };
}
