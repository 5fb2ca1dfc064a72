import type { Config } from "../config/schema/index.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { coversTool, narrowTools } from "../core/tool-names.ts";
import type { JSONSchema7, Schema, ToolSet } from "ai";
import type { TurnInfo } from "../contract/kinds.ts";
import type { Boundary } from "./boundary.ts";
import type { AgentExtensions, TurnExtension } from "./extensions.ts";
import { offerTool, readServerTool, type ServerTool } from "./mcp-tools.ts";
import type { OfferedTool } from "./offered-tool.ts";
import { offerPluginTool } from "./plugin-tools.ts";
import { raceAbort } from "./race.ts";
import type { Agent, CallerTool } from "./types.ts";

/** Returns the tools that a turn may use: the agent's own, in hook runs and heartbeats only those that `hooks.tools` names too. */
export function allowedTools(agent: Agent, hookTools: readonly string[], outside: boolean): readonly string[] {
  return outside ? narrowTools(agent.tools, hookTools) : agent.tools;
}

type Servers = Config["mcp"]["servers"];
interface Client {
  tools(): Promise<ToolSet>;
  close(): Promise<void>;
}
/** What reaches MCP servers from outside the config. */
interface ToolEnvironment {
  /** Programs run in this folder. */
  cwd: string;
  env: Record<string, string | undefined>;
  fetch: typeof fetch;
}
interface Connection {
  tools: readonly ServerTool[];
  /** Tools that no model can be given, as the server calls them. */
  unfit: readonly string[];
  close(): Promise<void>;
}

async function createClient(server: Servers[string], { cwd, env: { PATH = "" }, fetch }: ToolEnvironment): Promise<Client> {
  const { createMCPClient } = await import("@ai-sdk/mcp");
  if ("url" in server) {
    return createMCPClient({ transport: { type: server.type, url: server.url, headers: server.headers, fetch } });
  }
  const { Experimental_StdioMCPTransport } = await import("@ai-sdk/mcp/mcp-stdio");
  const env = { PATH, ...server.env };
  return createMCPClient({
    transport: new Experimental_StdioMCPTransport({ command: server.command, args: server.args, env, cwd }),
  });
}

async function connect(name: string, server: Servers[string], surroundings: ToolEnvironment): Promise<Connection> {
  const client = await createClient(server, surroundings);
  const offered = Object.entries(await client.tools());
  const read = await Promise.all(offered.map(async ([tool, definition]) => ({ tool, made: await readServerTool(name, tool, definition) })));
  return {
    tools: read.flatMap(({ made }) => made ?? []),
    unfit: read.flatMap(({ tool, made }) => (made ? [] : [tool])),
    close: () => client.close(),
  };
}

const CLOSE_MS = 1000;

/** What a turn says of itself to get its tools. */
export interface ToolTurn {
  info: TurnInfo;
  boundary: Boundary;
  /** Milliseconds that it waits for a server. */
  waitMs: number;
}

export interface ToolBox {
  /**
   * The tools of servers and plugins that `patterns` name, with what servers say of them inside the boundary. A server that
   * cannot be reached in time is a warning, and so are tools that no model can be given.
   */
  pick(patterns: readonly string[], turn: ToolTurn): Promise<{ tools: OfferedTool[]; warnings: string[] }>;
  close(): Promise<void>;
}

export interface ToolBoxOptions extends ToolEnvironment {
  servers: Servers;
  tools: AgentExtensions["tools"];
  log: Logger;
}

const toModelName = (source: string, tool: string): string => `${source.replaceAll(/[^\w-]/g, "_")}__${tool}`;
const covers = (patterns: readonly string[], source: string): boolean => patterns.some((pattern) => pattern.startsWith(`${source}.`));

/** Offers the tools that a turn has besides those of its agent's list. */
export const offerOwnTools = (extensions: readonly TurnExtension[], { info }: ToolTurn): Promise<OfferedTool[]> =>
  Promise.all(
    extensions.flatMap(({ id, tools }) =>
      tools.map((tool) => offerPluginTool(tool, { name: tool.name, tool: `${id}.${tool.name}` }, info)),
    ),
  );

/** Creates the tools of a snapshot. Connections to MCP servers are made when first needed, kept, and made again after a failure. */
export function createToolBox({ servers, tools: pluginTools, log, ...surroundings }: ToolBoxOptions): ToolBox {
  const connections = new Map<string, Promise<Connection>>();
  const open = (name: string, server: Servers[string]): Promise<Connection> => {
    const known = connections.get(name);
    if (known) return known;
    const made = connect(name, server, surroundings);
    connections.set(name, made);
    made.catch(() => connections.delete(name));
    return made;
  };

  return {
    async pick(patterns, turn) {
      const tools = await Promise.all(
        pluginTools.flatMap(({ plugin, value }) =>
          value
            .filter((tool) => coversTool(patterns, `${plugin}.${tool.name}`))
            .map((tool) => offerPluginTool(tool, { name: toModelName(plugin, tool.name), tool: `${plugin}.${tool.name}` }, turn.info)),
        ),
      );
      const warnings: string[] = [];
      for (const [name, server] of Object.entries(servers)) {
        if (!covers(patterns, name)) continue;
        try {
          const connection = await raceAbort(open(name, server), AbortSignal.timeout(turn.waitMs));
          const isCovered = (tool: string): boolean => coversTool(patterns, `${name}.${tool}`);
          for (const made of connection.tools.filter(({ tool }) => isCovered(tool))) tools.push(await offerTool(name, made, turn.boundary));
          const unfit = connection.unfit.filter(isCovered).length;
          if (unfit > 0) warnings.push(unfitWarning(name, unfit));
        } catch (error) {
          log.warn({ err: safeError(error), server: name }, "an MCP server cannot be reached; the turn goes on without its tools");
          warnings.push(`the tools of mcp.servers.${name} could not be reached`);
        }
      }
      return { tools, warnings };
    },
    async close() {
      const open = [...connections.values()];
      connections.clear();
      // One that never came about must not hold up the end.
      await Promise.allSettled(
        open.map((connection) =>
          raceAbort(
            connection.then((made) => made.close()),
            AbortSignal.timeout(CLOSE_MS),
          ),
        ),
      );
    },
  };
}

/** Does not repeat the names: they are the server's words. */
const unfitWarning = (server: string, count: number): string =>
  `${count === 1 ? "1 tool" : `${count} tools`} of mcp.servers.${server} left out: models take only letters, digits, "_" and "-" in the name of a tool (64 with "${server}__" before it), and also ".", "$" and "@" in that of a parameter; rename them at the server`;

const ANY_OBJECT = { type: "object", properties: {} };

/** Describes the tools of a turn's caller to the model. The caller carries out their calls. */
export function describeCallerTools(tools: readonly CallerTool[] = [], jsonSchema: (schema: JSONSchema7) => Schema): ToolSet {
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
