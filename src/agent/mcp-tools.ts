import type { JSONSchema7, jsonSchema as JsonSchema } from "ai";
import { cutText } from "../core/text.ts";
import { TOOL_NAME } from "../core/tool-names.ts";
import type { Boundary } from "./boundary.ts";
import type { ListedTool } from "./mcp-client.ts";
import type { McpServer } from "./mcp-server.ts";
import { neutralise } from "./neutralise.ts";
import type { OfferedTool, ToolHints } from "./offered-tool.ts";
import { splitSchema } from "./tool-schema.ts";

/** Some vendors refuse descriptions of more than 1,024 characters; the boundary markers need the rest. */
const MAX_DESCRIPTION = 700;
const MAX_WORDS = 10_000;
const GOES_ON = "[goes on in the description of the parameters]";

/** A tool of an MCP server: fields that are safe as they are, and the server's descriptions, which are text from outside. */
interface ServerTool {
  /** The name at the server. */
  tool: string;
  /** The name within a turn; a provider may get another one. */
  name: string;
  description: string;
  schema: JSONSchema7;
  /** The server's descriptions of the parameters. */
  parameters: string;
  hints: ToolHints;
}

/** Reads a server's hints about a tool. A tool that changes something counts as destructive, unless the server says otherwise, as the protocol demands. */
function readHints({ annotations = {} }: ListedTool): ToolHints {
  const { readOnlyHint, idempotentHint, destructiveHint } = annotations;
  const readOnly = readOnlyHint === true;
  return {
    readOnly,
    idempotent: idempotentHint === true,
    destructive: !readOnly && destructiveHint !== false,
  };
}

/** Reads a server's tool. Undefined if its name may be a sentence, or if models do not accept the name of a parameter. */
function readServerTool(server: string, listed: ListedTool): ServerTool | undefined {
  const split = splitSchema(listed.inputSchema);
  if (!TOOL_NAME.test(listed.name) || split === undefined) return undefined;
  const { name: tool, description = "" } = listed;
  return {
    tool,
    name: `${server}__${tool}`,
    description,
    schema: split.schema,
    parameters: split.words,
    hints: readHints(listed),
  };
}

/** A server's descriptions of a tool, divided between the description of the tool and that of its parameters. */
function divideWords({ description, parameters }: ServerTool): { first: string; rest: string } {
  const safe = neutralise(description);
  const { text, cut } = cutText(safe, MAX_DESCRIPTION);
  const rest = cutText([safe.slice(text.length), parameters].filter(Boolean).join("\n"), MAX_WORDS);
  return {
    first: cut > 0 ? `${text}${GOES_ON}` : text,
    rest: rest.cut > 0 ? `${rest.text}[cut: ${rest.cut} characters]` : rest.text,
  };
}

/** Builds the tool that a turn offers. The server's descriptions are inside the turn's boundary. */
function offerTool(
  name: string,
  made: ServerTool,
  server: McpServer,
  { wrap }: Boundary,
  jsonSchema: typeof JsonSchema,
): OfferedTool {
  const { first, rest } = divideWords(made);
  const tool = `${name}.${made.tool}`;
  const origin = `tool ${tool}`;
  const schema = rest === "" ? made.schema : { ...made.schema, description: wrap(rest, origin) };
  return {
    name: made.name,
    tool,
    hints: made.hints,
    exclusive: false,
    definition: {
      inputSchema: jsonSchema(schema),
      ...(first === "" ? {} : { description: wrap(first, origin) }),
    },
    execute: (input, call) => server.call({ ...call, tool: made.tool, input }),
  };
}

/** Does not quote the names: they are text from outside. */
const unfitWarning = (server: string, count: number): string =>
  `${count === 1 ? "1 tool" : `${count} tools`} of mcp.servers.${server} left out: the name of a tool may have up to 128 letters and digits of any script and the characters "_ - . / : @ $ + ~", and that of a parameter up to 64 letters, digits and the characters "_ - . $ @"; rename them at the server`;

/**
 * Offers the tools of a server that `isCovered`, with the server's descriptions inside the boundary. Tools whose names may be
 * sentences are left out, with a warning.
 */
export async function offerServerTools(
  name: string,
  server: McpServer,
  listed: readonly ListedTool[],
  isCovered: (tool: string) => boolean,
  boundary: Boundary,
): Promise<{ tools: OfferedTool[]; warnings: string[] }> {
  const { jsonSchema } = await import("ai");
  const covered = listed.filter((tool) => isCovered(tool.name));
  const read = covered.flatMap((tool) => readServerTool(name, tool) ?? []);
  const unfit = covered.length - read.length;
  return {
    tools: read.map((made) => offerTool(name, made, server, boundary, jsonSchema)),
    warnings: unfit > 0 ? [unfitWarning(name, unfit)] : [],
  };
}
