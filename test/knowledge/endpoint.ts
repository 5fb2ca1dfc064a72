import type { IncomingHttpHeaders } from "node:http";
import { serve } from "../channels/wire.ts";

/** A request for embeddings or for a reranking. */
export interface EndpointRequest {
  path: string;
  headers: IncomingHttpHeaders;
  model: string;
  input: string[];
  query: string;
  documents: string[];
  top_n: number;
  /** All members, for a test of the form. */
  body: object;
}

/** `hang`: no answer ever comes. */
type EndpointAnswer =
  | { status?: number; headers?: Record<string, string>; json?: unknown; text?: string }
  | "hang";

export interface FakeEndpoint {
  /** With the path `/v1` that clients are given. */
  baseUrl: string;
  asked: EndpointRequest[];
  /** The number of requests to a path. */
  count(path: string): number;
  /** Answers requests from now on. Undefined: as a vendor does. */
  answer: ((request: EndpointRequest) => EndpointAnswer | undefined) | undefined;
  /** Requests without an answer whose client still waits. */
  hanging(): number;
  close(): Promise<void>;
}

/** Knows two meanings, whatever the words. */
const toVector = (text: string): number[] => [
  /dog|puppy|hound/i.test(text) ? 3 : 0.1,
  /ship|vessel|boat/i.test(text) ? 3 : 0.1,
];

/** Prefers passages that have a mark such as `{5}`, the higher the better. */
const toRelevance = (text: string): number => Number(/\{(-?[\d.]+)\}/.exec(text)?.[1] ?? 0) / 10;

function answerUsually({
  path,
  input,
  documents,
  model,
  top_n: most,
}: EndpointRequest): EndpointAnswer {
  if (path === "/v1/embeddings") {
    const data = input.map((text, index) => ({
      object: "embedding",
      index,
      embedding: toVector(text),
    }));
    return { json: { object: "list", model, data, usage: { prompt_tokens: 1, total_tokens: 1 } } };
  }
  if (path !== "/v1/rerank") return { status: 404 };
  const results = documents.map((text, index) => ({ index, relevance_score: toRelevance(text) }));
  return {
    json: {
      id: "r",
      model,
      results: results.toSorted((a, b) => b.relevance_score - a.relevance_score).slice(0, most),
    },
  };
}

/** Starts an endpoint with the methods `/v1/embeddings` and `/v1/rerank`. */
export async function startEndpoint(): Promise<FakeEndpoint> {
  const asked: EndpointRequest[] = [];
  const hanging = new Set<object>();
  const endpoint: FakeEndpoint = {
    baseUrl: "",
    asked,
    count: (path) => asked.filter((request) => request.path === path).length,
    answer: undefined,
    hanging: () => hanging.size,
    close: async () => undefined,
  };
  const { url, close } = await serve(({ path, headers, body }, aborted) => {
    const seen = { ...(body as unknown as EndpointRequest), path, headers, body };
    asked.push(seen);
    const answer = endpoint.answer?.(seen) ?? answerUsually(seen);
    if (answer === "hang") {
      hanging.add(seen);
      aborted.addEventListener("abort", () => hanging.delete(seen));
      return answer;
    }
    const { status = 200, headers: more, json = {}, text = JSON.stringify(json) } = answer;
    return { status, text, headers: { "content-type": "application/json", ...more } };
  });
  Object.assign(endpoint, { baseUrl: `${url}/v1`, close });
  return endpoint;
}
