import type { JSONSchema7 } from "ai";
import { z } from "zod";
import { renderPath } from "../../config/issues.ts";
import type { Tool, ToolCallInfo, TurnInfo } from "../../contract/kinds.ts";
import type { ToolOutput } from "../../store/steps.ts";
import { getExactInput } from "./call-inputs.ts";
import { CALL_MS, OutcomeUnknownError, type OfferedTool } from "./offered-tool.ts";
import { raceAbort } from "../../core/pause.ts";
import { toTextOutput } from "./tool-results.ts";

const schemas = new WeakMap<z.ZodType, JSONSchema7>();

/**
 * Returns the JSON schema of a tool's input, as models get it.
 * @throws Error if the input is not an object, or a part of it has no JSON schema.
 */
export function toInputSchema(input: z.ZodType): JSONSchema7 {
  const known = schemas.get(input);
  if (known) return known;
  const { $schema: _draft, ...schema } = z.toJSONSchema(input, { io: "input" }) as JSONSchema7;
  if (schema.type !== "object") throw new TypeError("the input of a tool is an object");
  schemas.set(input, schema);
  return schema;
}

const NO_ANSWER = "the tool gave no answer in time; it may have done its work";

const renderIssues = (
  issues: readonly { path: readonly PropertyKey[]; message: string }[],
): string =>
  issues
    .map(({ path, message }) => [renderPath(path), message].filter(Boolean).join(": "))
    .join("\n");

const LONG_NUMBERS =
  "\nA number with more digits than a double holds reaches the tool as text: write one with fewer digits.";

/** Calls a tool. If the input is invalid, the model gets its issues and `execute` is not called. */
async function callTool(
  tool: Tool,
  { input, inputText }: { input: unknown; inputText?: string | undefined },
  info: ToolCallInfo,
): Promise<ToolOutput> {
  const given = getExactInput({ input, inputText });
  const checked = await tool.input.safeParseAsync(given);
  if (!checked.success) {
    const long = given === input ? "" : LONG_NUMBERS;
    return toTextOutput(
      `The input does not fit, and the tool was not called:\n${renderIssues(checked.error.issues)}${long}`,
      true,
    );
  }
  info.signal.throwIfAborted();
  const result = await raceAbort(
    Promise.resolve().then(() => tool.execute(checked.data, info)),
    info.signal,
  ).catch((error: unknown) => {
    throw info.signal.aborted ? new OutcomeUnknownError(NO_ANSWER, { cause: error }) : error;
  });
  return toTextOutput(typeof result === "string" ? result : (JSON.stringify(result) ?? "null"));
}

/** Makes the tool that a turn offers under a name. Results and errors get the boundary on their way to the model. */
export async function offerPluginTool(
  tool: Tool,
  names: Pick<OfferedTool, "name" | "tool">,
  turn: TurnInfo,
): Promise<OfferedTool> {
  const { jsonSchema } = await import("ai");
  const { readOnly = false, idempotent = false, destructive = false, exclusive = false } = tool;
  return {
    ...names,
    hints: { readOnly, idempotent, destructive },
    exclusive,
    definition: {
      description: tool.description,
      inputSchema: jsonSchema(toInputSchema(tool.input)),
    },
    execute: (input, { inputText, callId, signal, trace }) =>
      callTool(
        tool,
        { input, inputText },
        {
          ...turn,
          callId,
          signal: AbortSignal.any([signal, AbortSignal.timeout(CALL_MS)]),
          ...(trace && { trace }),
        },
      ),
  };
}
