import { judgeCall } from "../../people/policy.ts";
import {
  coversTool,
  RECALL_TOOL_NAME,
  REMEMBER_TOOL_NAME,
  SCHEDULE_TOOL_NAME,
  SEND_FILE_TOOL_NAME,
} from "../../vocabulary/tool-names.ts";
import type { Snapshot } from "../../intake/types.ts";
import { SEARCH_NAME } from "../../turns/knowledge.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { found, refuse } from "../records/operation.ts";
import type { AdminDeps } from "../types.ts";
import { outputView } from "../records/views.ts";

export type ToolView = Awaited<ReturnType<typeof listTools>>["agents"][number]["tools"][number];

type KnownTool = Pick<Parameters<typeof judgeCall>[0], "tool" | "hints">;
type Agent = Snapshot["agents"]["default"];

const SEARCH_TOOL_NAME = `knowledge.${SEARCH_NAME}`;

const builtIn = (tool: string, readOnly = false): KnownTool => ({
  tool,
  hints: { readOnly, idempotent: true, destructive: false },
});

/** The tools that belong to a run, and that no server and no plugin has. */
const BUILT_IN: readonly KnownTool[] = [
  builtIn(SEARCH_TOOL_NAME, true),
  builtIn(REMEMBER_TOOL_NAME),
  builtIn(RECALL_TOOL_NAME, true),
  builtIn(SCHEDULE_TOOL_NAME),
  builtIn(SEND_FILE_TOOL_NAME),
];

const getSource = (tool: string): string => tool.slice(0, tool.indexOf("."));

/** Says where a tool is not offered to an agent, and why: a key of the config, or a reason. Null: it is offered. */
function findRefusals(
  tool: string,
  { id, tools, knowledge }: Agent,
  { config }: Snapshot,
): Record<"hooks" | "chats" | "api", string | null> {
  const everywhere = (why: string | null) => ({ hooks: why, chats: why, api: why });
  const index = config.agents.list.findIndex((agent) => agent.id === id);
  const at = `agents.list[${Math.max(0, index)}]`;
  if (tool === SEARCH_TOOL_NAME) return everywhere(knowledge === "off" ? `${at}.knowledge` : null);
  if (!coversTool(tools, tool)) return everywhere(`${at}.tools`);
  return {
    hooks: coversTool(config.hooks.tools, tool) ? null : "hooks.tools",
    chats: null,
    api: tool === SEND_FILE_TOOL_NAME ? "no channel" : null,
  };
}

/** Says which calls of a tool in a chat wait for a person: each, those with text from outside in view, or none. */
function findApproval({ tool, hints }: KnownTool, { approve }: Agent, { config }: Snapshot) {
  const { untrusted = "ask" } = config.tools;
  const judge = (outside?: "input") =>
    judgeCall(
      { tool, hints, input: {} },
      {
        approve,
        untrusted,
        outside,
        beyondPeople: outside,
        isNamed: false,
        canAsk: true,
        isAllowed: false,
      },
    ).kind;
  if (judge() === "ask") return "always";
  const kind = judge("input");
  return kind === "run" ? null : kind === "ask" ? "outside text" : "withheld";
}

function toolView(known: KnownTool, agent: Agent, snapshot: Snapshot) {
  const { tool, hints } = known;
  const { config, mappings } = snapshot;
  const source = getSource(tool);
  const refusals = findRefusals(tool, agent, snapshot);
  const isAgents = coversTool(agent.tools, tool);
  return {
    tool,
    from: BUILT_IN.includes(known)
      ? "built in"
      : Object.hasOwn(config.mcp.servers, source)
        ? `mcp.servers.${source}`
        : `plugin ${source}`,
    readOnly: hints.readOnly,
    ...refusals,
    /** Mappings whose own `tools` say something else of their runs than `hooks` does. */
    exceptions: mappings.mappings.flatMap(({ id }) => {
      const own = mappings.settings(id)?.tools;
      return own && isAgents && coversTool(own, tool) !== (refusals.hooks === null) ? id : [];
    }),
    approval: refusals.chats === null ? findApproval(known, agent, snapshot) : null,
  };
}

/**
 * Lists the tools of all servers and plugins, and the built-in ones, as each agent has them. Warnings name servers that did not answer.
 * @throws RouseError `not_found` for an agent that does not exist.
 */
export async function listTools(deps: AdminDeps, agentId: string | undefined) {
  const snapshot = deps.snapshot();
  const { agents, config, runtime } = snapshot;
  const of =
    agentId === undefined ? agents.list : [found(agents.get(agentId), unknownId("agent", agentId))];
  return runtime.withTools(Object.keys(config.mcp.servers), ({ tools, warnings }) => ({
    agents: of.map((agent) => ({
      agentId: agent.id,
      tools: [...tools, ...BUILT_IN].map((tool) => toolView(tool, agent, snapshot)),
    })),
    warnings,
  }));
}

/**
 * Calls a tool of a server or of a plugin once, for the operator: no agent's list and no approval stands before it.
 * @throws RouseError `not_found`, or `usage` for a built-in tool.
 */
export async function testTool(
  deps: AdminDeps,
  { tool: name, input, signal }: { tool: string; input: unknown; signal: AbortSignal },
) {
  if (BUILT_IN.some(({ tool }) => tool === name))
    refuse(`${name} belongs to a conversation: try it with \`rouse chat\``);
  const { config, runtime } = deps.snapshot();
  const source = getSource(name);
  return runtime.withTools(
    Object.hasOwn(config.mcp.servers, source) ? [source] : [],
    async ({ tools, warnings }, runId) => {
      const [warning] = warnings;
      const tool = found(
        tools.find((one) => one.tool === name),
        warning === undefined ? unknownId("tool", name) : { code: "not_found", message: warning },
      );
      deps.log.info({ tool: name }, "an operator calls a tool");
      const output = await tool
        .execute(input, { callId: `${runId}.0.0`, signal })
        .catch((error: unknown) => ({
          parts: [
            { type: "text" as const, text: error instanceof Error ? error.message : "failed" },
          ],
          isError: true,
        }));
      return { tool: name, output: outputView(output) };
    },
  );
}
