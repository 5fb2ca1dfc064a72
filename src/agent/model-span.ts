import type { Attributes, Traces } from "../core/http/trace-context.ts";
import type { ModelAnswer } from "./model-request.ts";
import type { ModelCandidate, TurnInput } from "./types.ts";

/*
 * The names are those of open-telemetry/semantic-conventions-genai at commit 002c8a6ea1c8a42b14a4527db83b3cabcded610a,
 * docs/gen-ai/gen-ai-spans.md and gen-ai-agent-spans.md. They are in development and may change. Content that is opt-in there
 * (messages, instructions, definitions, arguments and results of tools) is never recorded.
 */

function toServerAttributes(baseUrl: string | undefined): Attributes {
  if (baseUrl === undefined) return {};
  const { hostname, port, protocol } = new URL(baseUrl);
  return {
    "server.address": hostname,
    "server.port": port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
  };
}

/** Describes the end of a call. The conventions spell finish reasons with underscores. */
const toEndAttributes = ({ usage, finish }: ModelAnswer): Attributes => ({
  "gen_ai.response.finish_reasons": [finish.replaceAll("-", "_")],
  "gen_ai.usage.input_tokens": usage.inputTokens,
  "gen_ai.usage.output_tokens": usage.outputTokens,
  "gen_ai.usage.cache_read.input_tokens": usage.inputTokenDetails?.cacheReadTokens,
  "gen_ai.usage.cache_creation.input_tokens": usage.inputTokenDetails?.cacheWriteTokens,
  "gen_ai.usage.reasoning.output_tokens": usage.outputTokenDetails?.reasoningTokens,
});

/** Makes a call of a model within a span. */
export async function callInSpan(
  { agent, info, sampling = {}, onText }: TurnInput,
  { model: { model }, provider: { kind, settings } }: ModelCandidate,
  traces: Traces,
  call: () => Promise<ModelAnswer>,
): Promise<ModelAnswer> {
  const { type, genAiName = type } = kind;
  const attributes = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": genAiName,
    "gen_ai.request.model": model,
    "gen_ai.request.stream": onText ? true : undefined,
    "gen_ai.request.max_tokens": sampling.maxOutputTokens,
    "gen_ai.request.temperature": sampling.temperature,
    "gen_ai.request.top_p": sampling.topP,
    "gen_ai.output.type": sampling.json && "json",
    "gen_ai.agent.id": agent.id,
    "gen_ai.agent.name": agent.name,
    "gen_ai.conversation.id": info.sessionKey,
    ...toServerAttributes(settings.baseUrl),
  };
  return traces.span(
    `chat ${model}`,
    attributes,
    async (span) => {
      const answer = await call();
      span.set(toEndAttributes(answer));
      if (answer.finish === "error") span.fail("error");
      return answer;
    },
    { kind: "client" },
  );
}
