import type { Config } from "../../config/schema/index.ts";
import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import {
  allCoverTool,
  allNameSource,
  findLeftOut,
  TOOL_NAME,
  type ToolPatterns,
} from "../../vocabulary/tool-names.ts";
import type { AgentExtensions, PickedTools, ToolTurn, TurnExtension } from "../types.ts";
import type { McpEnvironment } from "./mcp-client.ts";
import { McpServer } from "./mcp-server.ts";
import { offerServerTools } from "./mcp-tools.ts";
import { toModelName, type OfferedTool } from "./offered-tool.ts";
import { offerPluginTool } from "./plugin-tools.ts";

export type ToolBox = ReturnType<typeof createToolBox>;

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
}: ToolBoxOptions) {
  const servers = Object.entries(configured).map(
    ([name, server]) => [name, new McpServer({ ...environment, name, server })] as const,
  );
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
    /**
     * The tools of servers and plugins that `patterns` name, with what servers say of them inside the boundary. A server that
     * cannot be reached in time is a warning, and so are tools that no model can be given.
     */
    async pick(patterns: ToolPatterns, turn: ToolTurn): Promise<PickedTools> {
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
    /** Connects to the servers that one of the patterns covers, and stays connected. */
    start(patterns: readonly string[]): void {
      for (const [name, server] of servers) if (allNameSource([patterns], name)) server.start();
    },
    /** Returns the states of the servers. */
    states: () => servers.map(([, server]) => server.state),
    /** Ends the connections, and the programs of servers. */
    close: createCloser(servers.map(([, server]) => server)),
  };
}
