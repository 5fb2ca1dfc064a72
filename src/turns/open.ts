import { configuredTranscriber } from "../agent/transcribe.ts";
import type { DeliveryParts } from "../delivery/open.ts";
import { Quarantine } from "../queue/worker.ts";
import type { DedupeRecord, RunRecord } from "../store/types.ts";
import type { AttachmentDeps } from "./channel/attachments.ts";
import type { TurnDeps } from "./context.ts";
import { restoreWaitingRuns } from "./model-gate.ts";
import { cancelRun, retryOnRedelivery } from "./operations.ts";
import { createReceipts } from "./receipts.ts";
import type { RunOperations } from "./types.ts";
import { createTurnWorker, type TurnWorker } from "./worker.ts";

/** The parts that execute runs of the queue. */
export type TurnParts = ReturnType<typeof openTurns>;

type Made = "attachments" | "cancel" | "quarantine";

interface TurnContext extends Omit<TurnDeps, Made>, DeliveryParts {
  /** Cancels a turn of the API in this process; undefined if there is none with this id. */
  chats: { cancel(runId: string): Promise<RunRecord | undefined> };
  knowledge: Pick<AttachmentDeps, "stageUpload" | "readText">;
}

/** Creates what executes runs of the queue, and starts nothing. */
export function openTurns(context: TurnContext) {
  const { store, clock, parking, deliveries, snapshot } = context;
  const { env, fetch } = context.options;
  const cancel: RunOperations["cancel"] = (id) => cancelRun(id, { ...context, turns });
  const attachments: AttachmentDeps = {
    ...context.knowledge,
    clock,
    transcriber() {
      const { config, models } = snapshot();
      return configuredTranscriber({ config, env, fetch, kinds: models.kinds });
    },
  };
  const turns: TurnWorker = createTurnWorker({
    ...context,
    attachments,
    cancel,
    quarantine: new Quarantine(clock),
  });
  return {
    turns,
    receipts: createReceipts(context),
    /** The operations on runs, whichever gateway executes them. */
    runs: { cancel, retry: turns.retry } satisfies RunOperations,
    /** Starts again what a repeated event had brought and what failed. */
    retryFailed: (record: DedupeRecord) =>
      retryOnRedelivery(record, { store, restart: turns.restart, retryDelivery: deliveries.retry }),
    /** Lets the runs that waited for providers when the process ended wait for them again. */
    restoreWaiting: () => restoreWaitingRuns(parking, { store, clock, context: snapshot() }),
  };
}
