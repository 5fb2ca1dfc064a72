import type { JSONSchema7, LanguageModelMiddleware } from "ai";
import { z } from "zod";
import { renderPath } from "../config/issues.ts";
import type { Tool, ToolCallInfo, TurnInfo } from "../contract/kinds.ts";
import type { ToolOutput } from "../store/steps.ts";
import { CALL_MS, OutcomeUnknownError, type OfferedTool } from "./offered-tool.ts";
import { raceAbort } from "./race.ts";
import { toTextOutput } from "./tool-results.ts";

/** Numbers the calls of a run: `<run>.<step>.<position>`, the same in every try of the same step. */
export interface CallNumbers {
  middleware: LanguageModelMiddleware;
  /** The number of a call that the model has just made. */
  get(toolCallId: string): string;
}

export function createCallNumbers(runId: string): CallNumbers {
  const ids = new Map<string, string>();
  let step = -1;
  let position = 0;
  const add = (part: { type: string; toolCallId?: string }): void => {
    if (part.type === "tool-call" && part.toolCallId !== undefined) ids.set(part.toolCallId, `${runId}.${step}.${position++}`);
  };
  const begin = (): void => {
    step++;
    position = 0;
  };
  return {
    middleware: {
      specificationVersion: "v4",
      async wrapGenerate({ doGenerate }) {
        begin();
        const result = await doGenerate();
        for (const part of result.content) add(part);
        return result;
      },
      async wrapStream({ doStream }) {
        begin();
        const { stream, ...rest } = await doStream();
        const transform = new TransformStream<StreamPart, StreamPart>({
          transform(part, controller) {
            add(part);
            controller.enqueue(part);
          },
        });
        return { ...rest, stream: stream.pipeThrough(transform) };
      },
    },
    get: (toolCallId) => ids.get(toolCallId) ?? `${runId}.${step}.${toolCallId}`,
  };
}

type Stream = Awaited<ReturnType<Parameters<NonNullable<LanguageModelMiddleware["wrapStream"]>>[0]["doStream"]>>["stream"];
type StreamPart = Stream extends ReadableStream<infer P> ? P : never;

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

const renderIssues = (issues: readonly { path: readonly PropertyKey[]; message: string }[]): string =>
  issues.map(({ path, message }) => [renderPath(path), message].filter(Boolean).join(": ")).join("\n");

/** Calls a tool. The model is told of wrong input by its issues, and `execute` is not called. */
async function callTool(tool: Tool, given: unknown, info: ToolCallInfo): Promise<ToolOutput> {
  const checked = await tool.input.safeParseAsync(given);
  if (!checked.success)
    return toTextOutput(`The input does not fit, and the tool was not called:\n${renderIssues(checked.error.issues)}`, true);
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
export async function offerPluginTool(tool: Tool, names: Pick<OfferedTool, "name" | "tool">, turn: TurnInfo): Promise<OfferedTool> {
  const { jsonSchema } = await import("ai");
  const { readOnly = false, idempotent = false, destructive = false, exclusive = false } = tool;
  return {
    ...names,
    hints: { readOnly, idempotent, destructive },
    exclusive,
    definition: { description: tool.description, inputSchema: jsonSchema(toInputSchema(tool.input)) },
    execute: (input, { callId, signal, trace }) =>
      callTool(tool, input, {
        ...turn,
        callId,
        signal: AbortSignal.any([signal, AbortSignal.timeout(CALL_MS)]),
        ...(trace && { trace }),
      }),
  };
}
