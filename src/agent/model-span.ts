import type { LanguageModelMiddleware } from "ai";
import type { Attributes, Span, Traces } from "../core/http/trace-context.ts";
import type { ModelCandidate, TurnInput } from "./types.ts";

type Generate = NonNullable<LanguageModelMiddleware["wrapGenerate"]>;
type Stream = NonNullable<LanguageModelMiddleware["wrapStream"]>;
type Params = Parameters<Generate>[0]["params"];
type Answer = Awaited<ReturnType<Generate>>;
type Part = Awaited<ReturnType<Stream>>["stream"] extends ReadableStream<infer P> ? P : never;
type Ended = Pick<Answer, "usage" | "finishReason"> & {
  id?: string | undefined;
  modelId?: string | undefined;
};

/*
 * The names are those of open-telemetry/semantic-conventions-genai at commit 002c8a6ea1c8a42b14a4527db83b3cabcded610a,
 * docs/gen-ai/gen-ai-spans.md and gen-ai-agent-spans.md. They are in development and may change. Content that is opt-in there
 * (messages, instructions, definitions, arguments and results of tools) is never recorded.
 */

const toAgentAttributes = (
  { id, name }: { id: string; name: string },
  session: string,
): Attributes => ({
  "gen_ai.agent.id": id,
  "gen_ai.agent.name": name,
  "gen_ai.conversation.id": session,
});

function serverAttributes(baseUrl: string | undefined): Attributes {
  if (baseUrl === undefined) return {};
  const { hostname, port, protocol } = new URL(baseUrl);
  return {
    "server.address": hostname,
    "server.port": port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
  };
}

function requestAttributes(params: Params): Attributes {
  const {
    temperature,
    topP,
    topK,
    maxOutputTokens,
    presencePenalty,
    frequencyPenalty,
    seed,
    responseFormat,
  } = params;
  return {
    "gen_ai.request.max_tokens": maxOutputTokens,
    "gen_ai.request.temperature": temperature,
    "gen_ai.request.top_p": topP,
    "gen_ai.request.top_k": topK,
    "gen_ai.request.presence_penalty": presencePenalty,
    "gen_ai.request.frequency_penalty": frequencyPenalty,
    "gen_ai.request.seed": seed,
    "gen_ai.output.type": responseFormat?.type,
  };
}

/** Adds to a span how its call ended. The conventions spell finish reasons with underscores. */
function setEnd(span: Span, { usage, finishReason: { unified }, id, modelId }: Ended): void {
  span.set({
    "gen_ai.response.id": id,
    "gen_ai.response.model": modelId,
    "gen_ai.response.finish_reasons": [unified.replaceAll("-", "_")],
    "gen_ai.usage.input_tokens": usage.inputTokens.total,
    "gen_ai.usage.output_tokens": usage.outputTokens.total,
    "gen_ai.usage.cache_read.input_tokens": usage.inputTokens.cacheRead,
    "gen_ai.usage.cache_creation.input_tokens": usage.inputTokens.cacheWrite,
    "gen_ai.usage.reasoning.output_tokens": usage.outputTokens.reasoning,
  });
  if (unified === "error") span.fail("error");
}

/** Observes a stream while it is read. `onEnd` is called once the stream ends, also if its reader stops early. */
function watch(span: Span, onEnd: () => void): TransformStream<Part, Part> {
  const began = performance.now();
  let isTimed = false;
  let answered: { id?: string | undefined; modelId?: string | undefined } = {};
  let failed: string | undefined;
  let isFinished = false;
  const end = (code: string | undefined): void => {
    if (code !== undefined) span.fail(code);
    onEnd();
  };
  return new TransformStream<Part, Part>({
    transform(part, controller) {
      if (!isTimed && part.type !== "stream-start" && part.type !== "response-metadata") {
        isTimed = true;
        span.set({
          "gen_ai.response.time_to_first_chunk": (performance.now() - began) / 1000,
        });
      }
      if (part.type === "response-metadata") answered = { id: part.id, modelId: part.modelId };
      if (part.type === "error") failed = "error";
      if (part.type === "finish") {
        setEnd(span, { ...answered, usage: part.usage, finishReason: part.finishReason });
        isFinished = true;
        end(failed);
      }
      controller.enqueue(part);
    },
    flush: () => end(isFinished ? undefined : (failed ?? "interrupted")),
    cancel: () => end(isFinished ? undefined : (failed ?? "cancelled")),
  });
}

/**
 * Creates the middleware that makes a span of each call of a model. It must be the innermost middleware, to see the changes
 * of all other middleware.
 */
export function createModelSpans(
  { agent, info }: Pick<TurnInput, "agent" | "info">,
  { model: { model }, provider: { kind, settings } }: ModelCandidate,
  traces: Traces,
): LanguageModelMiddleware {
  const { type, genAiName = type } = kind;
  const toAttributes = (params: Params, isStream?: true): Attributes => ({
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": genAiName,
    "gen_ai.request.model": model,
    "gen_ai.request.stream": isStream,
    ...requestAttributes(params),
    ...serverAttributes(settings.baseUrl),
    ...toAgentAttributes(agent, info.sessionKey),
  });
  return {
    specificationVersion: "v4",
    wrapGenerate: async ({ doGenerate, params }) =>
      traces.span(
        `chat ${model}`,
        toAttributes(params),
        async (span) => {
          const answer = await doGenerate();
          const { usage, finishReason, response } = answer;
          setEnd(span, { usage, finishReason, id: response?.id, modelId: response?.modelId });
          return answer;
        },
        { kind: "client" },
      ),
    // The span lasts until the stream ends, which is after this function has returned it.
    wrapStream: ({ doStream, params }) =>
      new Promise((resolve, reject) => {
        const call = async (span: Span): Promise<void> => {
          const { promise: isOver, resolve: end } = Promise.withResolvers<void>();
          const watched = watch(span, end);
          const { stream, ...rest } = await doStream();
          resolve({ ...rest, stream: stream.pipeThrough(watched) });
          await isOver;
        };
        void Promise.resolve(
          traces.span(`chat ${model}`, toAttributes(params, true), call, { kind: "client" }),
        ).catch(reject);
      }),
  };
}
