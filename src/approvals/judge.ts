import type { CallVerdict, JudgedCall } from "../agent/journal.ts";
import { findOutside, type View } from "../agent/provenance.ts";
import type { Config } from "../config/schema/index.ts";
import { coversTool, type ToolPatterns } from "../core/tool-names.ts";
import type { StepRecord } from "../store/types.ts";
import { judgeCall } from "./policy.ts";
import { coversCall, type ApprovalRule } from "./rules.ts";

/** The settings of the config and the mapping for the tools of a run. */
export interface ToolSettings {
  agent: { id: string; tools: readonly string[]; approve: readonly string[] };
  config: Pick<Config, "hooks" | "tools">;
  /** Of the run's mapping. */
  mapping: { tools?: readonly string[]; approve?: readonly string[] };
  kind: View["kind"];
}

/** The tools that the operator has named for a run about what hooks sent; undefined for a run of another kind. */
const getNamed = ({ kind, mapping, config }: ToolSettings): readonly string[] | undefined =>
  kind === "hook" || kind === "heartbeat" ? (mapping.tools ?? config.hooks.tools) : undefined;

/** Returns the tools that a run may use: the agent's own; in hook runs and heartbeats only those that are named for them. */
export function getOfferedTools(settings: ToolSettings): ToolPatterns {
  const named = getNamed(settings);
  return named ? [settings.agent.tools, named] : [settings.agent.tools];
}

/** Whether a call that was made has a result. What the gateway says about calls that it did not make is not text from outside. */
const hasAnswer = ({ calls }: StepRecord): boolean =>
  calls.some(({ startedAt, output }) => startedAt !== undefined && output !== undefined);

/** The facts about a turn on which its calls are judged. */
export interface JudgedRun extends ToolSettings, Pick<View, "history" | "input" | "messages"> {
  /** Whether a person can be asked: the run can wait. */
  canAsk: boolean;
  rules: readonly ApprovalRule[];
}

/** Creates the judge of a run's calls: which are made immediately, which wait for a person, and which are not made. */
export function createJudge(run: JudgedRun): (call: JudgedCall) => CallVerdict {
  const { agent, config, mapping, kind, history, input, messages, canAsk, rules } = run;
  const named = getNamed(run) ?? [];
  const approve = [...agent.approve, ...(mapping.approve ?? [])];
  const { untrusted } = config.tools;
  return ({ steps, context, ...call }) => {
    const view = { kind, history, input, messages, context, hasResults: steps.some(hasAnswer), countsOwnResults: untrusted !== undefined };
    return judgeCall(call, {
      approve,
      untrusted: untrusted ?? "ask",
      outside: findOutside(view),
      isNamed: coversTool(named, call.tool),
      canAsk,
      isAllowed: rules.some((rule) => coversCall(rule, { agentId: agent.id, tool: call.tool, input: call.input })),
    });
  };
}
