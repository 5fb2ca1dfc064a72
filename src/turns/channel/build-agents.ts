import { createAgentRuntime, type RuntimeOptions } from "../../agent/runtime.ts";
import { createToolCheck, toolIssues } from "../../agent/tools/tool-checks.ts";
import { transcriptionIssues } from "../../agent/transcribe.ts";
import { findUnpricedModels } from "../../agent/usage.ts";
import type { Issue } from "../../core/errors.ts";
import { findRouteProblem, LAST_CHANNEL, type Channels } from "../../delivery/channels.ts";
import { checkApprovals, findToolProblems } from "../../people/policy.ts";
import { createAgents } from "../agents.ts";
import { createRooms } from "./rooms.ts";

export interface AgentsOptions extends RuntimeOptions {
  plugins: RuntimeOptions["plugins"] & { channels: Channels };
}

/** Builds the models, agents and rooms of a config, who may decide about calls, and what mappings may name of all that. */
export function buildAgents(options: AgentsOptions) {
  const { config } = options;
  const { channels, offers, incomplete } = options.plugins;
  const { runtime, issues } = createAgentRuntime(options);
  const { models } = runtime;
  const agents = createAgents(config, models);
  const { rooms, ...found } = createRooms(config, agents, channels);
  const checkTool = createToolCheck(config, offers.tools, incomplete);
  const { approvers, ...asked } = checkApprovals(config, channels, checkTool);
  return {
    runtime,
    models,
    agents,
    rooms,
    approvers,
    known: {
      agents: new Set(agents.list.map((agent) => agent.id)),
      channels: (name: string) => name === LAST_CHANNEL || channels.resolve(name) !== undefined,
      routeProblem: (target: Parameters<typeof findRouteProblem>[0]) =>
        findRouteProblem(target, channels, rooms.ownerChannels),
      toolProblems: (field: "tools" | "approve", patterns: readonly string[]) =>
        findToolProblems(field, patterns, checkTool),
      model: (name: string) => models.resolveRequested(name),
    },
    findUnpriced: (): Issue[] => findUnpricedModels(agents.list, models),
    runtimeIssues: [
      ...issues,
      ...transcriptionIssues(config, models.kinds),
      ...toolIssues(config, offers.tools, incomplete),
    ],
    issues: [...found.issues, ...asked.issues],
    warnings: [...found.warnings, ...asked.warnings],
  };
}
