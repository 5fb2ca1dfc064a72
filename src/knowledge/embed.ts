import { backOff } from "../core/backoff.ts";
import type { Clock } from "../core/clock.ts";
import { RouseError, safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Database } from "./db/client.ts";
import type { NewVector, Pending } from "./db/protocol.ts";
import type { Embedder } from "./types.ts";

/** Texts in one request: what every known endpoint takes. */
export const BATCH = 16;
/** The waits after an endpoint that did not answer as it should. */
const RETRY = { firstMs: 5_000, longestMs: 5 * 60_000 };
const REQUEST_MS = 60_000;
/** Statuses that say something of the account or the moment, not of the text. */
const NOT_THE_TEXT = new Set([401, 402, 403, 404, 405, 407, 408, 409, 425, 429]);

/** The endpoint refuses this very input; another attempt would be refused too. */
export class EmbeddingRefused extends Error {
  constructor() {
    super("the endpoint refuses the text");
    this.name = "EmbeddingRefused";
  }
}

interface EmbeddingAnswer {
  data?: { index?: number; embedding?: unknown }[];
}

const isVector = (value: unknown): value is number[] =>
  Array.isArray(value) && value.length > 0 && value.every((part) => typeof part === "number");

function parseVectors(answer: EmbeddingAnswer, count: number): Float32Array[] {
  const data = (answer.data ?? []).map((entry, index) => ({ at: entry.index ?? index, embedding: entry.embedding }));
  const vectors = data
    .toSorted((a, b) => a.at - b.at)
    .flatMap(({ embedding }) => (isVector(embedding) ? [Float32Array.from(embedding)] : []));
  if (vectors.length !== count)
    throw new RouseError({ code: "internal", message: "the embedding endpoint answered with something else than vectors" });
  return vectors;
}

/**
 * Embeddings from any endpoint that speaks OpenAI's `POST /embeddings`.
 * `baseUrl` ends before `/embeddings`, as with the official clients (`https://api.openai.com/v1`).
 */
export function createEmbedder(options: {
  baseUrl: string;
  model: string;
  apiKey?: string;
  headers?: Record<string, string>;
  fetch: typeof fetch;
}): Embedder {
  const { baseUrl, model, apiKey, headers = {}, fetch: request } = options;
  const url = `${baseUrl.replace(/\/+$/, "")}/embeddings`;
  return {
    model,
    async embed(texts, signal) {
      const response = await request(url, {
        method: "POST",
        headers: { "content-type": "application/json", ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }), ...headers },
        body: JSON.stringify({ model, input: texts, encoding_format: "float" }),
        signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_MS)]),
      });
      if (!response.ok) {
        await response.body?.cancel();
        if (response.status >= 400 && response.status < 500 && !NOT_THE_TEXT.has(response.status)) throw new EmbeddingRefused();
        throw new RouseError({ code: "internal", message: `the embedding endpoint answered ${response.status}` });
      }
      return parseVectors((await response.json()) as EmbeddingAnswer, texts.length);
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

export interface EmbeddingLoop {
  /** There is something new to embed. */
  wake(): void;
  close(): Promise<void>;
}

/** Embeds passages. A passage whose text the endpoint refuses gets no vector. */
async function embedAll(embedder: Embedder, batch: readonly Pending[], signal: AbortSignal): Promise<NewVector[]> {
  try {
    const vectors = await embedder.embed(
      batch.map(({ text }) => text),
      signal,
    );
    return batch.map(({ seq }, index) => ({ seq, vector: normalized(vectors[index] as Float32Array) }));
  } catch (error) {
    if (!(error instanceof EmbeddingRefused)) throw error;
    // Which of them it was is found one by one.
    if (batch.length > 1) return (await Promise.all(batch.map((one) => embedAll(embedder, [one], signal)))).flat();
    return batch.map(({ seq }) => ({ seq, vector: null }));
  }
}

/**
 * Gives every visible chunk a vector of the model, in the background: documents are searchable by words before, and
 * while the endpoint is down. After a failure it waits, longer each time, up to five minutes.
 */
export function createEmbeddingLoop(options: {
  embedder: Embedder;
  reader: Database<"reader">;
  writer: Database<"writer">;
  clock: Clock;
  log: Logger;
}): EmbeddingLoop {
  const { embedder, reader, writer, clock, log } = options;
  const stop = new AbortController();
  let again = false;
  let running: Promise<void> | undefined;

  const pass = async (): Promise<void> => {
    for (let after = 0; !stop.signal.aborted;) {
      const batch = await reader.call("pending", embedder.model, after, BATCH);
      if (batch.length === 0) return;
      await writer.call("putVectors", embedder.model, await embedAll(embedder, batch, stop.signal));
      after = batch.at(-1)?.seq ?? after;
    }
  };

  const work = async (): Promise<void> => {
    let failures = 0;
    while (again && !stop.signal.aborted) {
      again = false;
      try {
        await pass();
        failures = 0;
      } catch (error) {
        if (stop.signal.aborted) return;
        const delay = backOff(++failures, RETRY);
        log.warn({ err: safeError(error), againInSeconds: delay / 1000 }, "no embeddings: documents are found by their words for now");
        again = true;
        await clock.sleep(delay, stop.signal);
      }
    }
  };

  return {
    wake() {
      again = true;
      if (stop.signal.aborted) return;
      running ??= work().finally(() => (running = undefined));
    },
    async close() {
      stop.abort();
      await running;
    },
  };
}
