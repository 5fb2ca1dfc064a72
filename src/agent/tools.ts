import type { Config } from "../config/schema/index.ts";
import { RouseError, safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import { coversTool, narrowTools } from "../core/tool-names.ts";
import type { JSONSchema7, Schema, ToolSet } from "ai";
import type { Boundary } from "./boundary.ts";
import type { Agent, TurnInput } from "./types.ts";

/** Returns the tools that a turn may use: the agent's own, in hook runs and heartbeats only those that `hooks.tools` names too. */
export function allowedTools(agent: Agent, hookTools: readonly string[], outside: boolean): readonly string[] {
  return outside ? narrowTools(agent.tools, hookTools) : agent.tools;
}

type Servers = Config["mcp"]["servers"];
/** What reaches MCP servers from outside the config. */
interface Surroundings {
  /** Programs run in this folder. */
  cwd: string;
  env: Record<string, string | undefined>;
  fetch: typeof fetch;
}
interface Connection {
  tools: ToolSet;
  close(): Promise<void>;
}

async function connect(server: Servers[string], { cwd, env: { PATH = "" }, fetch }: Surroundings): Promise<Connection> {
  const { createMCPClient } = await import("@ai-sdk/mcp");
  if ("url" in server) {
    const client = await createMCPClient({ transport: { type: server.type, url: server.url, headers: server.headers, fetch } });
    return { tools: await client.tools(), close: () => client.close() };
  }
  const { Experimental_StdioMCPTransport } = await import("@ai-sdk/mcp/mcp-stdio");
  const env = { PATH, ...server.env };
  const client = await createMCPClient({
    transport: new Experimental_StdioMCPTransport({ command: server.command, args: server.args, env, cwd }),
  });
  return { tools: await client.tools(), close: () => client.close() };
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
  /** The tools that `patterns` name, with results inside the boundary; a server that cannot be reached within `waitMs` is a warning. */
  pick(patterns: readonly string[], boundary: Boundary, waitMs: number): Promise<{ tools: ToolSet; warnings: string[] }>;
  close(): Promise<void>;
}

/** Connections to the config's MCP servers: made when first needed, kept, made again after a failure. */
export function createToolBox(servers: Servers, log: Logger, surroundings: Surroundings): ToolBox {
  const connections = new Map<string, Promise<Connection>>();
  const open = (name: string, server: Servers[string]): Promise<Connection> => {
    const known = connections.get(name);
    if (known) return known;
    const made = connect(server, surroundings);
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
          for (const [tool, definition] of Object.entries(connection.tools)) {
            if (coversTool(patterns, `${name}.${tool}`)) tools[`${name}__${tool}`] = bounded(definition, `${name}.${tool}`, boundary);
          }
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

/** A tool whose result reaches the model as outside text. */
function bounded(definition: ToolSet[string], name: string, boundary: Boundary): ToolSet[string] {
  return {
    ...definition,
    toModelOutput: ({ output }: { output: unknown }) => ({
      type: "text" as const,
      value: boundary.wrap(typeof output === "string" ? output : JSON.stringify(output), `tool ${name}`),
    }),
  };
}

const ANY_OBJECT = { type: "object", properties: {} };

/** The tools that a turn brings itself: those of its caller, which nobody here carries out, and Rouse's own. */
export function directTools(
  { callerTools = [], ownTools = [] }: TurnInput,
  boundary: Boundary,
  jsonSchema: (schema: JSONSchema7) => Schema,
): ToolSet {
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
    const own = { inputSchema: jsonSchema(schema), execute, ...(description === undefined ? {} : { description }) };
    tools[name] = bounded(own, name, boundary);
  }
  return tools;
}
