import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";

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
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const body = JSON.parse(Buffer.concat(parts).toString()) as EndpointRequest;
      const seen = { ...body, path: request.url ?? "", headers: request.headers, body };
      asked.push(seen);
      const answer = endpoint.answer?.(seen) ?? answerUsually(seen);
      if (answer === "hang") {
        hanging.add(response);
        response.once("close", () => hanging.delete(response));
        return;
      }
      const { status = 200, headers = {}, json, text = JSON.stringify(json ?? {}) } = answer;
      response.writeHead(status, { "content-type": "application/json", ...headers }).end(text);
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  endpoint.baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return endpoint;
}
