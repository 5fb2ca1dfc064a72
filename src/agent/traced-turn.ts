import type { Telemetry, TracedModel } from "../telemetry/types.ts";
import type { OfferedTool } from "./offered-tool.ts";
import type { ModelCandidate, TurnInput } from "./types.ts";

/** Names the model of a turn as its spans do. */
export function toTracedModel(
  { agent, info }: Pick<TurnInput, "agent" | "info">,
  { model, provider: { kind, settings } }: ModelCandidate,
): TracedModel {
  const { type, genAiName = type } = kind;
  const { baseUrl } = settings;
  return {
    provider: genAiName,
    model: model.model,
    baseUrl,
    agent: { id: agent.id, name: agent.name },
    session: info.sessionKey,
  };
}

/** The same tools; each call is a span, which the tool gets as `trace` to pass it on. */
export function traceTools(
  tools: readonly OfferedTool[],
  telemetry: Telemetry | undefined,
): readonly OfferedTool[] {
  if (!telemetry) return tools;
  return tools.map((tool) => ({
    ...tool,
    execute: (input, call) =>
      telemetry.tool(
        { name: tool.name, tool: tool.tool, callId: call.callId },
        () => tool.execute(input, { ...call, trace: telemetry.current() }),
        ({ isError }) => (isError ? { error: "tool_error" } : {}),
      ),
  }));
}
