import type { Config } from "../config/schema/index.ts";
import { RouseError, safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { coversTool, narrowTools } from "../core/tool-names.ts";
import type { JSONSchema7, Schema, ToolSet } from "ai";
import type { Boundary } from "./boundary.ts";
import { offerTool, readServerTool, type ServerTool } from "./mcp-tools.ts";
import type { Agent, TurnInput } from "./types.ts";

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
interface Surroundings {
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

async function createClient(server: Servers[string], { cwd, env: { PATH = "" }, fetch }: Surroundings): Promise<Client> {
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

async function connect(name: string, server: Servers[string], surroundings: Surroundings): Promise<Connection> {
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

/** A promise, or an error once the time is over; what the promise becomes later is still kept by who made it. */
async function within<T>(made: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new RouseError({ code: "internal", message: "no answer in time" })), ms);
  });
  return Promise.race([made, late]).finally(() => clearTimeout(timer));
}

export interface ToolBox {
  /**
   * The tools that `patterns` name, with what their servers say of them inside the boundary. A server that cannot be reached
   * within `waitMs` is a warning, and so are tools that no model can be given.
   */
  pick(patterns: readonly string[], boundary: Boundary, waitMs: number): Promise<{ tools: ToolSet; warnings: string[] }>;
  close(): Promise<void>;
}

/** Connections to the config's MCP servers: made when first needed, kept, made again after a failure. */
export function createToolBox(servers: Servers, log: Logger, surroundings: Surroundings): ToolBox {
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
    async pick(patterns, boundary, waitMs) {
      const tools: ToolSet = {};
      const warnings: string[] = [];
      for (const [name, server] of Object.entries(servers)) {
        if (!patterns.some((pattern) => pattern.startsWith(`${name}.`))) continue;
        try {
          const connection = await within(open(name, server), waitMs);
          const isCovered = (tool: string): boolean => coversTool(patterns, `${name}.${tool}`);
          for (const made of connection.tools) if (isCovered(made.tool)) tools[made.name] = await offerTool(name, made, boundary);
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
          within(
            connection.then((made) => made.close()),
            CLOSE_MS,
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

/** The tools that a turn brings itself: those of its caller, which nobody here carries out, and Rouse's own. */
export function directTools({ callerTools = [], ownTools = [] }: TurnInput, jsonSchema: (schema: JSONSchema7) => Schema): ToolSet {
  const tools: ToolSet = {};
  for (const { name, description, schema, strict } of callerTools)
    tools[name] = {
      inputSchema: jsonSchema(schema ?? ANY_OBJECT),
      ...(description === undefined ? {} : { description }),
      ...(strict === undefined ? {} : { strict }),
    };
  for (const { name, description, schema, run } of ownTools) {
    const execute = (input: unknown, { abortSignal }: { abortSignal?: AbortSignal | undefined }): Promise<string> =>
      run(input, abortSignal ?? new AbortController().signal);
    tools[name] = { inputSchema: jsonSchema(schema), execute, ...(description === undefined ? {} : { description }) };
  }
  return tools;
}
