import { z } from "zod";
import { EndpointError, postJson, type EndpointCall } from "./endpoint.ts";
import type { Reranker } from "../types.ts";

/** The longest answer that is read, in bytes: some endpoints send the texts back. */
const MAX_ANSWER = 16 * 2 ** 20;
const TITLE = "the rerank endpoint";

const ANSWER = z.object({
  results: z.array(z.object({ index: z.number(), relevance_score: z.number() })),
});

/** Reads a score for each of `count` texts. Scores that are not for all texts, each once, would be an order of something else. */
function parseScores(answer: unknown, count: number): number[] {
  const { results = [] } = ANSWER.safeParse(answer).data ?? {};
  const scores = new Map(results.map((result) => [result.index, result.relevance_score]));
  const ordered = Array.from({ length: count }, (_, index) => scores.get(index));
  if (results.length === count && ordered.every((score) => score !== undefined)) return ordered;
  throw new EndpointError(
    `${TITLE} answered with something else than a score for each passage`,
    "answered",
  );
}

/**
 * Creates a reranker over any endpoint that speaks the format of Cohere (`POST /rerank`, https://docs.cohere.com/reference/rerank),
 * which Jina, vLLM, LiteLLM, Infinity, llama.cpp and OpenVINO have taken over. `baseUrl` ends before `/rerank`
 * (`https://api.jina.ai/v1`).
 */
export function createReranker(
  options: Omit<EndpointCall, "title"> & {
    model: string;
    provider: string;
    passages: number;
    minScore?: number | undefined;
  },
): Reranker {
  const { model, provider, passages, minScore, ...endpoint } = options;
  return {
    model,
    provider,
    passages,
    minScore,
    async rerank(query, texts, signal) {
      const body = { model, query, documents: texts, top_n: texts.length };
      return parseScores(
        await postJson({ ...endpoint, title: TITLE }, "/rerank", body, {
          signal,
          maxBytes: MAX_ANSWER,
        }),
        texts.length,
      );
    },
  };
}
