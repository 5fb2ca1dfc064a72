import type { JSONSchema7, jsonSchema as JsonSchema } from "ai";
import { cutText } from "../core/text.ts";
import type { Boundary } from "./boundary.ts";
import type { ListedTool } from "./mcp-client.ts";
import type { McpServer } from "./mcp-server.ts";
import { neutralise } from "./neutralise.ts";
import type { OfferedTool, ToolHints } from "./offered-tool.ts";
import { splitSchema } from "./tool-schema.ts";

/** What vendors take as a tool's name. */
const NAME = /^[\w-]{1,64}$/;
/** Some vendors refuse descriptions of more than 1,024 characters; the markers take the rest. */
const MAX_DESCRIPTION = 700;
const MAX_WORDS = 10_000;
const GOES_ON = "[goes on in the description of the parameters]";

/** A tool of an MCP server: what may stand as it is, and the server's words, which are outside text. */
interface ServerTool {
  /** As the server calls it. */
  tool: string;
  /** As the model calls it. */
  name: string;
  description: string;
  schema: JSONSchema7;
  /** The server's words about the parameters. */
  parameters: string;
  hints: ToolHints;
}

/** Reads a server's hints about a tool. A tool that changes something may destroy, unless the server says otherwise: so does the protocol. */
function readHints({ annotations = {} }: ListedTool): ToolHints {
  const { readOnlyHint, idempotentHint, destructiveHint } = annotations;
  const readOnly = readOnlyHint === true;
  return { readOnly, idempotent: idempotentHint === true, destructive: !readOnly && destructiveHint !== false };
}

/** Reads a server's tool. Undefined if its name, or that of a parameter, is none that a model can be given. */
function readServerTool(server: string, listed: ListedTool): ServerTool | undefined {
  const name = `${server}__${listed.name}`;
  const split = splitSchema(listed.inputSchema);
  if (!NAME.test(name) || split === undefined) return undefined;
  const { name: tool, description = "" } = listed;
  return { tool, name, description, schema: split.schema, parameters: split.words, hints: readHints(listed) };
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
function offerTool(name: string, made: ServerTool, server: McpServer, { wrap }: Boundary, jsonSchema: typeof JsonSchema): OfferedTool {
  const { first, rest } = divideWords(made);
  const tool = `${name}.${made.tool}`;
  const origin = `tool ${tool}`;
  const schema = rest === "" ? made.schema : { ...made.schema, description: wrap(rest, origin) };
  return {
    name: made.name,
    tool,
    hints: made.hints,
    exclusive: false,
    definition: { inputSchema: jsonSchema(schema), ...(first === "" ? {} : { description: wrap(first, origin) }) },
    execute: (input, call) => server.call({ ...call, tool: made.tool, input }),
  };
}

/** Does not repeat the names: they are the server's words. */
const unfitWarning = (server: string, count: number): string =>
  `${count === 1 ? "1 tool" : `${count} tools`} of mcp.servers.${server} left out: models take only letters, digits, "_" and "-" in the name of a tool (64 with "${server}__" before it), and also ".", "$" and "@" in that of a parameter; rename them at the server`;

/**
 * Offers the tools of a server that `isCovered`, with what the server says of them inside the boundary. Tools that no model can
 * be given are a warning.
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
