import { z } from "zod";
import { backOff, WAITS } from "../../core/backoff.ts";
import type { Clock } from "../../core/clock.ts";
import { safeError } from "../../core/errors.ts";
import type { Logger } from "../../core/log.ts";
import type { Database } from "../thread/client.ts";
import type { NewVector, Pending } from "../catalog/writer.ts";
import { EndpointError, postJson, type EndpointCall } from "./endpoint.ts";
import type { Embedder } from "../types.ts";

/** Texts in one request: what every known endpoint takes. */
const BATCH = 16;
const REQUEST_MS = 60_000;
/** The longest answer that is read, in bytes: some vectors of each text in a batch. */
const MAX_ANSWER = 16 * 2 ** 20;

const ANSWER = z.object({
  data: z.array(z.object({ index: z.number().nullish(), embedding: z.array(z.number()).min(1) })),
});

function parseVectors(answer: unknown, count: number): Float32Array[] {
  const { data: vectors = [] } = ANSWER.safeParse(answer).data ?? {};
  if (vectors.length !== count)
    throw new EndpointError(
      "the embedding endpoint answered with something else than vectors",
      "answered",
    );
  return vectors
    .map(({ index, embedding }, place) => ({ at: index ?? place, embedding }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ embedding }) => Float32Array.from(embedding));
}

/**
 * Embeddings from any endpoint that speaks OpenAI's `POST /embeddings`.
 * `baseUrl` ends before `/embeddings`, as with the official clients (`https://api.openai.com/v1`).
 */
export function createEmbedder(
  options: Omit<EndpointCall, "title"> & { model: string; provider?: string },
): Embedder {
  const { model, provider, ...endpoint } = options;
  return {
    model,
    ...(provider === undefined ? {} : { provider }),
    async embed(texts, signal) {
      const limits = {
        signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS)]),
        maxBytes: MAX_ANSWER,
      };
      const body = { model, input: texts, encoding_format: "float" };
      return parseVectors(
        await postJson(
          { ...endpoint, title: "the embedding endpoint" },
          "/embeddings",
          body,
          limits,
        ),
        texts.length,
      );
    },
  };
}

/** The same direction with length one: then the product of two vectors is their cosine. */
export function normalized(vector: Float32Array): Float32Array {
  let sum = 0;
  for (const part of vector) sum += part * part;
  const length = Math.sqrt(sum);
  return length === 0 ? vector : vector.map((part) => part / length);
}

/** Embeds passages. A passage whose text the endpoint refuses gets no vector. */
async function embedAll(
  embedder: Embedder,
  batch: readonly Pending[],
  signal: AbortSignal,
): Promise<NewVector[]> {
  try {
    const vectors = await embedder.embed(
      batch.map(({ text }) => text),
      signal,
    );
    return batch.map(({ seq }, index) => ({
      seq,
      vector: normalized(vectors[index] as Float32Array),
    }));
  } catch (error) {
    if (!(error instanceof EndpointError && error.isRefused)) throw error;
    // Which of them it was is found one by one.
    if (batch.length > 1)
      return (await Promise.all(batch.map((one) => embedAll(embedder, [one], signal)))).flat();
    return batch.map(({ seq }) => ({ seq, vector: null }));
  }
}

/** The parts that give passages their vectors. */
interface EmbeddingParts {
  embedder: Embedder;
  database: Database;
}

/**
 * Gives a vector of the model to all visible chunks that have none.
 * @throws EndpointError if the endpoint gives no vectors.
 */
export async function embedPending(
  { embedder, database }: EmbeddingParts,
  signal: AbortSignal,
): Promise<void> {
  for (let after = 0; !signal.aborted;) {
    const batch = await database.call("pending", embedder.model, after, BATCH);
    if (batch.length === 0) return;
    const vectors = await embedAll(embedder, batch, signal);
    await database.call("putVectors", embedder.model, vectors);
    after = batch.at(-1)?.seq ?? after;
  }
}

/**
 * Gives every visible chunk a vector of the model, in the background: documents are searchable by words before, and
 * while the endpoint is down. After a failure it waits, longer each time, up to five minutes.
 */
export function createEmbeddingLoop(options: EmbeddingParts & { clock: Clock; log: Logger }) {
  const { clock, log } = options;
  const stop = new AbortController();
  let again = false;
  let running: Promise<void> | undefined;

  const work = async (): Promise<void> => {
    let failures = 0;
    while (again && !stop.signal.aborted) {
      again = false;
      try {
        await embedPending(options, stop.signal);
        failures = 0;
      } catch (error) {
        if (stop.signal.aborted) return;
        const asked = error instanceof EndpointError ? error.getRetryAfterMs(clock.now()) : 0;
        const delay = Math.max(backOff(++failures, WAITS.embeddings), asked);
        log.warn(
          { err: safeError(error), againInSeconds: delay / 1000 },
          "no embeddings: documents are found by their words for now",
        );
        again = true;
        await clock.sleep(delay, stop.signal);
      }
    }
  };

  return {
    /** There is something new to embed. */
    wake(): void {
      again = true;
      if (stop.signal.aborted) return;
      running ??= work().finally(() => (running = undefined));
    },
    async close(): Promise<void> {
      stop.abort();
      await running;
    },
  };
}
