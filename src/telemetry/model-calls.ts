import { SpanKind } from "@opentelemetry/api";
import type { LanguageModelMiddleware } from "ai";
import { getErrorType, type Spans } from "./spans.ts";
import type { Attributes, SpanEnd, Telemetry, TracedModel } from "./types.ts";

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

/** The attributes that spans of models and agents have in common. */
export const agentAttributes = ({
  agent,
  session,
}: Pick<TracedModel, "agent" | "session">): Attributes => ({
  "gen_ai.agent.id": agent.id,
  "gen_ai.agent.name": agent.name,
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

function requestAttributes(
  { model, provider, baseUrl, ...rest }: TracedModel,
  params: Params,
  isStream: boolean,
): Attributes {
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
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": provider,
    "gen_ai.request.model": model,
    "gen_ai.request.stream": isStream || undefined,
    "gen_ai.request.max_tokens": maxOutputTokens,
    "gen_ai.request.temperature": temperature,
    "gen_ai.request.top_p": topP,
    "gen_ai.request.top_k": topK,
    "gen_ai.request.presence_penalty": presencePenalty,
    "gen_ai.request.frequency_penalty": frequencyPenalty,
    "gen_ai.request.seed": seed,
    "gen_ai.output.type": responseFormat?.type,
    ...serverAttributes(baseUrl),
    ...agentAttributes(rest),
  };
}

/** The finish reasons as the conventions spell them: with underscores. */
function toEnd({ usage, finishReason: { unified }, id, modelId }: Ended): SpanEnd {
  return {
    attributes: {
      "gen_ai.response.id": id,
      "gen_ai.response.model": modelId,
      "gen_ai.response.finish_reasons": [unified.replaceAll("-", "_")],
      "gen_ai.usage.input_tokens": usage.inputTokens.total,
      "gen_ai.usage.output_tokens": usage.outputTokens.total,
      "gen_ai.usage.cache_read.input_tokens": usage.inputTokens.cacheRead,
      "gen_ai.usage.cache_creation.input_tokens": usage.inputTokens.cacheWrite,
      "gen_ai.usage.reasoning.output_tokens": usage.outputTokens.reasoning,
    },
    ...(unified === "error" ? { error: "error" } : {}),
  };
}

/** Observes a stream while it is read: the span ends with the stream, also if its reader stops early. */
function watch(began: number, settle: (end: SpanEnd) => void): TransformStream<Part, Part> {
  let first: number | undefined;
  let answered: { id?: string | undefined; modelId?: string | undefined } = {};
  let failed: string | undefined;
  const timed = (end: SpanEnd): SpanEnd => ({
    ...end,
    attributes: {
      ...end.attributes,
      "gen_ai.response.time_to_first_chunk":
        first === undefined ? undefined : (first - began) / 1000,
    },
  });
  return new TransformStream<Part, Part>({
    transform(part, controller) {
      if (part.type !== "stream-start" && part.type !== "response-metadata")
        first ??= performance.now();
      if (part.type === "response-metadata") answered = { id: part.id, modelId: part.modelId };
      if (part.type === "error") failed = "error";
      if (part.type === "finish") {
        const end = toEnd({ ...answered, usage: part.usage, finishReason: part.finishReason });
        settle(timed(failed === undefined ? end : { ...end, error: failed }));
      }
      controller.enqueue(part);
    },
    flush: () => settle(timed({ error: failed ?? "interrupted" })),
    cancel: () => settle(timed({ error: failed ?? "cancelled" })),
  });
}

/** Creates the middleware that wraps the calls of a model in spans. */
export function createModelCalls(spans: Spans): Telemetry["modelCalls"] {
  return (model) => {
    const options = (params: Params, isStream: boolean) => ({
      name: `chat ${model.model}`,
      kind: SpanKind.CLIENT,
      attributes: requestAttributes(model, params, isStream),
    });
    return {
      specificationVersion: "v4",
      wrapGenerate: ({ doGenerate, params }) =>
        spans.inside(options(params, false), doGenerate, ({ usage, finishReason, response }) =>
          toEnd({ usage, finishReason, id: response?.id, modelId: response?.modelId }),
        ),
      async wrapStream({ doStream, params }) {
        const began = performance.now();
        const { span, context } = spans.start(options(params, true));
        let isOpen = true;
        const settle = (end: SpanEnd): void => {
          if (isOpen) spans.end(span, end);
          isOpen = false;
        };
        try {
          const { stream, ...rest } = await spans.activate(context, doStream);
          return { ...rest, stream: stream.pipeThrough(watch(began, settle)) };
        } catch (error) {
          settle({ error: getErrorType(error) });
          throw error;
        }
      },
    };
  };
}
