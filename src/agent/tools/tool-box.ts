import { isDeepStrictEqual } from "node:util";
import type { JSONSchema7, Schema, ToolSet } from "ai";
import { z } from "zod";
import type { Config } from "../../config/schema/index.ts";
import type { Tool } from "../../contract/kinds.ts";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import type { Reads, RunSpec } from "../../store/types.ts";
import {
  allCoverTool,
  allNameSource,
  findLeftOut,
  TOOL_NAME,
  type ToolPatterns,
} from "../../vocabulary/tool-names.ts";
import type {
  AgentExtensions,
  TurnExtension,
  CallerTool,
  PickedTools,
  ToolTurn,
} from "../types.ts";
import type { McpEnvironment } from "./mcp-client.ts";
import { McpServer, type McpServerState } from "./mcp-server.ts";
import { offerServerTools } from "./mcp-tools.ts";
import { toModelName, type OfferedTool } from "./offered-tool.ts";
import { offerPluginTool } from "./plugin-tools.ts";
import { READ_RESULT, renderMore, takeBytes } from "./tool-results.ts";

export interface ToolBox {
  /**
   * The tools of servers and plugins that `patterns` name, with what servers say of them inside the boundary. A server that
   * cannot be reached in time is a warning, and so are tools that no model can be given.
   */
  pick(patterns: ToolPatterns, turn: ToolTurn): Promise<PickedTools>;
  /** Connects to the servers that one of the patterns covers, and stays connected. */
  start(patterns: readonly string[]): void;
  /** Returns the states of the servers. */
  states(): McpServerState[];
  /** Does the work of a turn: `retire` waits for its end. */
  during<T>(turn: () => Promise<T>): Promise<T>;
  /** Ends the connections once the turns under way are over. */
  retire(): void;
  /** Ends the connections, and the programs of servers. */
  close(): Promise<void>;
}

export interface ToolBoxOptions extends McpEnvironment {
  servers: Config["mcp"]["servers"];
  tools: AgentExtensions["tools"];
  clock: Pick<Clock, "now" | "monotonic" | "sleep">;
  log: Logger;
}

/** Offers the tools that a turn has besides those of its agent's list. */
export const offerOwnTools = (
  extensions: readonly TurnExtension[],
  { info }: ToolTurn,
): Promise<OfferedTool[]> =>
  Promise.all(
    extensions.flatMap(({ id, tools }) =>
      tools.map((tool) =>
        offerPluginTool(tool, { name: tool.name, tool: `${id}.${tool.name}` }, info),
      ),
    ),
  );

/** Creates what ends connections, and holds no tool of a plugin as long as it is not called. */
const createCloser = (servers: readonly McpServer[]) => async (): Promise<void> => {
  await Promise.all(servers.map((server) => server.close()));
};

/** Creates the tools of a snapshot. Connections to MCP servers are made when first needed, and kept. */
export function createToolBox({
  servers: configured,
  tools: pluginTools,
  ...environment
}: ToolBoxOptions): ToolBox {
  const servers = Object.entries(configured).map(
    ([name, server]) => [name, new McpServer({ ...environment, name, server })] as const,
  );
  let turns = 0;
  let isRetired = false;
  const close = createCloser(servers.map(([, server]) => server));
  const pickServer = async (
    name: string,
    server: McpServer,
    patterns: ToolPatterns,
    { boundary, waitMs }: ToolTurn,
  ) => {
    try {
      const listed = await server.tools(AbortSignal.timeout(waitMs));
      const offered = await offerServerTools(
        name,
        server,
        listed,
        (tool) => allCoverTool(patterns, `${name}.${tool}`),
        boundary,
      );
      const names = listed.filter((tool) => TOOL_NAME.test(tool.name));
      return { ...offered, known: names.map((tool) => `${name}.${tool.name}`) };
    } catch {
      const { error = "it did not answer in time" } = server.state;
      const warnings = [`the tools of mcp.servers.${name} are missing: ${error}`];
      return { tools: [], known: [], warnings };
    }
  };

  return {
    async pick(patterns, turn) {
      const own = await Promise.all(
        pluginTools.flatMap(({ plugin, value }) =>
          value
            .filter((tool) => allCoverTool(patterns, `${plugin}.${tool.name}`))
            .map((tool) => {
              const name = `${plugin}.${tool.name}`;
              return offerPluginTool(tool, { name: toModelName(name), tool: name }, turn.info);
            }),
        ),
      );
      const named = servers.filter(([name]) => allNameSource(patterns, name));
      const picked = await Promise.all(
        named.map(([name, server]) => pickServer(name, server, patterns, turn)),
      );
      return {
        tools: [...own, ...picked.flatMap(({ tools }) => tools)],
        warnings: picked.flatMap(({ warnings }) => warnings),
        leftOut: findLeftOut(patterns, [
          ...pluginTools.flatMap(({ plugin, value }) =>
            value.map(({ name }) => `${plugin}.${name}`),
          ),
          ...picked.flatMap(({ known }) => known),
        ]),
      };
    },
    start(patterns) {
      for (const [name, server] of servers) if (allNameSource([patterns], name)) server.start();
    },
    states: () => servers.map(([, server]) => server.state),
    async during(turn) {
      turns++;
      try {
        return await turn();
      } finally {
        turns--;
        if (isRetired && turns === 0) void close();
      }
    },
    retire() {
      isRetired = true;
      if (turns === 0) void close();
    },
    close,
  };
}

const ANY_OBJECT = { type: "object", properties: {} };

/** Describes the tools of a turn's caller to the model. The caller carries out their calls. */
export function describeCallerTools(
  tools: readonly CallerTool[] = [],
  jsonSchema: (schema: JSONSchema7) => Schema,
): ToolSet {
  return Object.fromEntries(
    tools.map(({ name, description, schema, strict }) => [
      name,
      {
        inputSchema: jsonSchema(schema ?? ANY_OBJECT),
        ...(description === undefined ? {} : { description }),
        ...(strict === undefined ? {} : { strict }),
      },
    ]),
  );
}

const READ_INPUT = z.strictObject({
  id: z.string().describe("The id that the cut result names."),
  offset: z.int().min(0).default(0).describe("The number of the character to go on from."),
});
const READ_DESCRIPTION =
  "Reads more of a tool's result that was cut because it is long. The end of a cut result says with which id and offset.";
/** For the note on how to read on. */
const NOTE_BYTES = 400;
const NOT_FOUND =
  "There is no stored result with this id in this conversation. It may no longer be kept: call the tool again.";

/**
 * Returns the tool that reads on in results that were cut: those of this run and of earlier runs of its session, and no other.
 * A piece is `maxBytes` bytes of UTF-8 at most, with its note.
 */
export function createReadResult(
  { id: runId, spec }: { id: string; spec: Pick<RunSpec, "session"> },
  store: Pick<Reads, "toolResults"> & { runs: Pick<Reads["runs"], "get"> },
  maxBytes: number,
): TurnExtension {
  const isOwn = async (id: string): Promise<boolean> =>
    id === runId || isDeepStrictEqual((await store.runs.get(id))?.spec.session, spec.session);
  const tool: Tool<typeof READ_INPUT> = {
    name: READ_RESULT,
    description: READ_DESCRIPTION,
    input: READ_INPUT,
    readOnly: true,
    idempotent: true,
    async execute({ id, offset }) {
      const stored = await store.toolResults.get(id);
      if (!stored || !(await isOwn(stored.runId))) return NOT_FOUND;
      const { length } = stored.text;
      if (offset >= length)
        return `The result has ${length} characters: there is nothing behind offset ${offset}.`;
      const piece = takeBytes(stored.text.slice(offset), maxBytes - NOTE_BYTES);
      const next = offset + piece.length;
      return next < length ? piece + renderMore(id, next, length) : piece;
    },
  };
  return { id: "rouse", tools: [tool], warning: "" };
}
