import type { ModelProvider } from "#plugin";

/** A finish reason that is set. Within a text it does not match: there its quotes are escaped. */
const FINISH = /"finish_reason"\s*:\s*"/;
const DONE = /(?:^|\n)data: ?\[DONE\]/;
/** The length of read text that is searched again with the text that follows: a match may be cut in two. */
const OVERLAP = 64;
const STOP = `\n\ndata: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })}\n\n`;

/** Appends a chunk with the finish reason `stop` to an event stream that ends with `[DONE]` and had no finish reason. */
function completeStream(): TransformStream<Uint8Array, Uint8Array> {
  let tail = "";
  let isFinished = false;
  let isDone = false;
  return new TransformStream({
    transform(chunk, controller) {
      controller.enqueue(chunk);
      if (isFinished) return;
      const text =
        tail + Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength).toString("latin1");
      isFinished = FINISH.test(text);
      isDone ||= DONE.test(text);
      tail = text.slice(-OVERLAP);
    },
    flush(controller) {
      if (isDone && !isFinished) controller.enqueue(Buffer.from(STOP));
    },
  });
}

/**
 * A `fetch` for servers that end a complete stream with `[DONE]` alone. The client library reads over `[DONE]`, so to it such
 * a stream is one that was cut.
 */
function completeStreams(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (...request) => {
    const response = await fetch(...request);
    const { body, status, statusText, headers } = response;
    if (!body || !response.ok || !headers.get("content-type")?.startsWith("text/event-stream"))
      return response;
    return new Response(body.pipeThrough(completeStream()), { status, statusText, headers });
  };
}

const provider: ModelProvider = {
  type: "openai-compatible",
  embeddings: {},
  thinkingFields: ["reasoning_effort"],
  check: ({ baseUrl }) =>
    baseUrl === undefined
      ? [{ field: "baseUrl", message: "is required for type openai-compatible" }]
      : [],
  async create({ name, baseUrl = "", apiKey, headers }, { fetch }) {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    return createOpenAICompatible({
      name,
      baseURL: baseUrl,
      headers: { ...headers },
      fetch: completeStreams(fetch),
      includeUsage: true,
      supportsStructuredOutputs: true,
      ...(apiKey !== undefined && { apiKey }),
    });
  },
  requestOptions: ({ parallelToolCalls, strictJson }, { name }) => ({
    [name]: {
      ...(strictJson !== undefined && { strictJsonSchema: strictJson }),
      ...(parallelToolCalls !== undefined && { parallel_tool_calls: parallelToolCalls }),
    },
  }),
};

/** Models of any server that speaks OpenAI's chat completions. Of `#plugin` it takes the types alone: it is loaded by every start that uses it. */
export default { id: "openai-compatible", providers: [provider] };
