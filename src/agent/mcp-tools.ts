import type { JSONSchema7, ToolSet } from "ai";
import { cutText } from "../core/text.ts";
import type { Boundary } from "./boundary.ts";
import { toToolOutput } from "./mcp-results.ts";
import { neutralise } from "./neutralise.ts";
import { CALL_MS, OutcomeUnknownError, type OfferedTool, type ToolHints } from "./offered-tool.ts";
import { raceAbort } from "./race.ts";
import { splitSchema } from "./tool-schema.ts";

/** What vendors take as a tool's name. */
const NAME = /^[\w-]{1,64}$/;
/** Some vendors refuse descriptions of more than 1,024 characters; the markers take the rest. */
const MAX_DESCRIPTION = 700;
const MAX_WORDS = 10_000;
const GOES_ON = "[goes on in the description of the parameters]";

/** A tool of an MCP server: what may stand as it is, and the server's words, which are outside text. */
export interface ServerTool {
  /** As the server calls it. */
  tool: string;
  /** As the model calls it. */
  name: string;
  description: string;
  schema: JSONSchema7;
  /** The server's words about the parameters. */
  parameters: string;
  hints: ToolHints;
  execute: ToolSet[string]["execute"];
}

/** Reads a server's hints about a tool. A tool that changes something may destroy, unless the server says otherwise: so does the protocol. */
function readHints({ metadata }: ToolSet[string]): ToolHints {
  const { readOnlyHint, idempotentHint, destructiveHint } = (metadata?.["annotations"] ?? {}) as Record<string, unknown>;
  const readOnly = readOnlyHint === true;
  return { readOnly, idempotent: idempotentHint === true, destructive: !readOnly && destructiveHint !== false };
}

/** Reads a server's tool. Undefined if its name, or that of a parameter, is none that a model can be given. */
export async function readServerTool(server: string, tool: string, definition: ToolSet[string]): Promise<ServerTool | undefined> {
  const { asSchema } = await import("ai");
  const name = `${server}__${tool}`;
  const split = splitSchema(await asSchema(definition.inputSchema).jsonSchema);
  if (!NAME.test(name) || split === undefined) return undefined;
  const description = typeof definition.description === "string" ? definition.description : "";
  return {
    tool,
    name,
    description,
    schema: split.schema,
    parameters: split.words,
    hints: readHints(definition),
    execute: definition.execute,
  };
}

/** The words of a server about a tool, divided between the two places where a model reads them. */
function divideWords({ description, parameters }: ServerTool): { first: string; rest: string } {
  const safe = neutralise(description);
  const { text, cut } = cutText(safe, MAX_DESCRIPTION);
  const rest = cutText([safe.slice(text.length), parameters].filter(Boolean).join("\n"), MAX_WORDS);
  return {
    first: cut > 0 ? `${text}${GOES_ON}` : text,
    rest: rest.cut > 0 ? `${rest.text}[cut: ${rest.cut} characters]` : rest.text,
  };
}

/** Makes the tool that a turn offers: a server's words about it stand inside the turn's boundary. */
export async function offerTool(server: string, made: ServerTool, boundary: Boundary): Promise<OfferedTool> {
  const { jsonSchema } = await import("ai");
  const { first, rest } = divideWords(made);
  const tool = `${server}.${made.tool}`;
  const origin = `tool ${tool}`;
  const schema = rest === "" ? made.schema : { ...made.schema, description: boundary.wrap(rest, origin) };
  return {
    name: made.name,
    tool,
    hints: made.hints,
    exclusive: false,
    definition: { inputSchema: jsonSchema(schema), ...(first === "" ? {} : { description: boundary.wrap(first, origin) }) },
    async execute(input, { callId, signal: cancelled }) {
      const signal = AbortSignal.any([cancelled, AbortSignal.timeout(CALL_MS)]);
      const call = { toolCallId: callId, messages: [], abortSignal: signal, context: undefined };
      const result = await raceAbort(Promise.resolve(made.execute?.(input, call)), signal).catch((error: unknown) => {
        throw signal.aborted ? new OutcomeUnknownError(`${tool} gave no answer in time; it may have done its work`) : error;
      });
      return toToolOutput(result);
    },
  };
}
