import type { ModelProvider } from "#plugin";
import { readAnswers } from "./answers.ts";

interface ImagePart {
  type: string;
  detail?: string;
  image_url?: object;
}

interface Body {
  messages?: { content?: unknown }[];
  tools?: unknown;
  parallel_tool_calls?: unknown;
}

/**
 * Puts the detail of images where the API has it: the client library puts it beside their addresses. Leaves out
 * `parallel_tool_calls` without `tools`, which several servers reject. Says that no stream is wanted: several servers send one
 * otherwise.
 */
function toRequest({ messages = [], parallel_tool_calls: parallel, ...body }: Body) {
  const place = ({ detail, ...part }: ImagePart): ImagePart =>
    detail === undefined ? part : { ...part, image_url: { ...part.image_url, detail } };
  const placed = messages.map((message) =>
    Array.isArray(message.content)
      ? { ...message, content: (message.content as ImagePart[]).map(place) }
      : message,
  );
  return {
    stream: false,
    ...body,
    messages: placed,
    ...(body.tools !== undefined && { parallel_tool_calls: parallel }),
  };
}

const provider: ModelProvider = {
  type: "openai-compatible",
  embeddings: {},
  check: ({ baseUrl }) =>
    baseUrl === undefined
      ? [{ field: "baseUrl", message: "is required for type openai-compatible" }]
      : [],
  imageOptions: (detail) => ({ openaiCompatible: { detail } }),
  async create({ name, baseUrl = "", apiKey, headers }, { fetch }) {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    return createOpenAICompatible({
      name,
      baseURL: baseUrl,
      headers: { ...headers },
      fetch: readAnswers(fetch),
      includeUsage: true,
      supportsStructuredOutputs: true,
      transformRequestBody: toRequest,
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
