import type { CallVerdict, JudgedCall } from "../agent/journal.ts";
import { removeLinksTo } from "../agent/links.ts";
import { isTrustedMemory } from "../agent/memory-results.ts";
import { findOutside, type View } from "../agent/provenance.ts";
import type { Config } from "../config/schema/index.ts";
import { coversTool, REMEMBER_TOOL_NAME, type ToolPatterns } from "../core/tool-names.ts";
import type { ToolCallRecord } from "../store/types.ts";
import { judgeCall } from "./policy.ts";
import { createOutsideWords, renderHosts } from "./outside-words.ts";
import { coversCall, type ApprovalRule } from "./rules.ts";

/** The settings of the config and the mapping for the tools of a run. */
export interface ToolSettings {
  agent: {
    id: string;
    tools: readonly string[];
    approve: readonly string[];
    instructions?: string;
  };
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

/** Whether a call has a result that is text from outside. What the gateway says itself is not: about calls that it did not make, and of notes. */
function hasOutsideAnswer({ tool, startedAt, output }: ToolCallRecord): boolean {
  if (startedAt === undefined || output === undefined) return false;
  return !output.parts.every((part) => part.type === "text" && isTrustedMemory(tool, part.text));
}

/** The facts about a turn on which its calls are judged. */
export interface JudgedRun extends ToolSettings, Pick<View, "history" | "input" | "messages"> {
  /** Whether a person can be asked: the run can wait. */
  canAsk: boolean;
  /** Whether this is a turn of a main session: the owner's notes are not for others to write. */
  isMain: boolean;
  rules: readonly ApprovalRule[];
  /** The operator's for this turn. */
  instructions?: string;
  callerInstructions?: string;
}

export interface Judge {
  /** Says which calls are made immediately, which wait for a person, and which are not made. */
  judgeCall(call: JudgedCall): CallVerdict;
  /** Returns the reply as it may leave, and warnings about links and recipients that outside text alone has named. */
  reviewTurn(
    text: string,
    seen: Pick<JudgedCall, "steps" | "context">,
  ): { text: string; warnings: string[] };
  /** Says of a call of `remember` that was let through whose words were in view. Of a call that was not judged it is `people`. */
  findOrigin(callId: string): "trusted" | "people";
}

/** Creates the judge of what a run does. */
export function createJudge(run: JudgedRun): Judge {
  const { agent, config, mapping, kind, history, input, messages, canAsk, isMain, rules } = run;
  const named = getNamed(run) ?? [];
  const approve = [...agent.approve, ...(mapping.approve ?? [])];
  const { untrusted } = config.tools;
  const recipients = config.tools.recipients ?? untrusted ?? "ask";
  const links =
    config.tools.links ?? (config.hooks.allowedLinkHosts ? (untrusted ?? "ask") : "allow");
  const operator = [agent.instructions, run.instructions, run.callerInstructions].filter(
    (text) => text !== undefined,
  );
  const getView = ({ steps, context }: Pick<JudgedCall, "steps" | "context">): View => {
    const results = steps
      .filter(({ calls }) => calls.some(hasOutsideAnswer))
      .flatMap(({ calls }) => calls.map(({ output }) => output));
    return {
      kind,
      history,
      input,
      messages,
      context,
      results,
      countsOwnResults: untrusted !== undefined,
    };
  };
  const trusted = new Set<string>();
  return {
    judgeCall({ steps, context, ...call }) {
      const view = getView({ steps, context });
      const outside = findOutside(view);
      if (outside === undefined) trusted.add(call.id);
      const isHarmless = outside === undefined || call.hints.readOnly;
      const found = isHarmless
        ? undefined
        : createOutsideWords(view, operator, config).inCall(call.input);
      return judgeCall(call, {
        approve,
        untrusted: untrusted ?? "ask",
        links: { policy: links, isFound: (found?.hosts.size ?? 0) > 0 },
        recipients: { policy: recipients, isFound: (found?.recipients.size ?? 0) > 0 },
        outside,
        ...(call.tool === REMEMBER_TOOL_NAME && {
          beyondPeople: isMain ? outside : findOutside(view, false),
        }),
        isNamed: coversTool(named, call.tool),
        canAsk,
        isAllowed: rules.some((rule) =>
          coversCall(rule, { agentId: agent.id, tool: call.tool, input: call.input }),
        ),
      });
    },
    findOrigin: (callId) => (trusted.has(callId) ? "trusted" : "people"),
    reviewTurn(text, seen) {
      const view = getView(seen);
      if (findOutside(view) === undefined) return { text, warnings: [] };
      const words = createOutsideWords(view, operator, config);
      const calls = seen.steps
        .flatMap((step) => step.calls)
        .filter(({ readOnly }) => readOnly !== true);
      const warnings = calls.flatMap(({ tool, input: args, state }) => {
        const { hosts, recipients: reached } = words.inCall(args);
        const what = [
          ...(reached.size > 0 ? ["a recipient"] : []),
          ...(hosts.size > 0 ? [`links to ${renderHosts([...hosts])}`] : []),
        ];
        return what.length === 0
          ? []
          : [
              `a call of ${tool} (${state}) had ${what.join(" and ")} that only text from outside has named`,
            ];
      });
      const hosts = words.inReply(text);
      if (hosts.length === 0) return { text, warnings };
      const isRemoved =
        config.tools.links !== undefined && config.tools.links !== "allow" && kind !== "api";
      const said = isRemoved ? "were removed from the reply" : "are in the reply";
      warnings.push(
        `links to hosts that only text from outside has named ${said}: ${renderHosts(hosts)}`,
      );
      return { text: isRemoved ? removeLinksTo(text, hosts) : text, warnings };
    },
  };
}
