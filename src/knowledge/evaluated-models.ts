import { backOff } from "../core/backoff.ts";
import type { Clock } from "../core/clock.ts";
import { EndpointError } from "./endpoint.ts";
import type { MakeCall } from "./guarded-calls.ts";
import type { Embedder, SearchModels } from "./types.ts";

const MAX_TRIES = 4;
const RETRY = { firstMs: 1_000, longestMs: 8_000 };
const REQUEST_MS = 60_000;

/** The models that a search is measured with. */
export interface EvaluatedModels {
  models: SearchModels;
  clock: Clock;
}

/**
 * Makes calls that are tried again after errors that pass. The last error is thrown: figures of a search that has done without
 * the model would be taken for those of the model.
 */
export function withRetries({ models, clock }: EvaluatedModels): {
  embedder: Embedder | undefined;
  makeCall: MakeCall;
} {
  const { embed } = models;
  const attempt = async <T>(work: () => Promise<T>): Promise<T> => {
    for (let tries = 1; ; tries++) {
      try {
        return await work();
      } catch (error) {
        const isPassing =
          error instanceof EndpointError && (error.outcome === "away" || error.outcome === "busy");
        if (!isPassing || tries === MAX_TRIES) throw error;
        await clock.sleep(Math.max(backOff(tries, RETRY), error.getRetryAfterMs(clock.now())));
      }
    }
  };
  return {
    embedder: embed && {
      ...embed,
      embed: (texts, signal) => attempt(() => embed.embed(texts, signal)),
    },
    makeCall: ({ work }) => attempt(() => work(AbortSignal.timeout(REQUEST_MS))),
  };
}
