import type { Config } from "../../config/schema/index.ts";
import { didYouMean } from "../../config/suggest.ts";
import type { Issue } from "../../core/errors.ts";
import { coversTool, findOwnToolProblem, OWN_SOURCE } from "../../vocabulary/tool-names.ts";
import type { AgentExtensions } from "../types.ts";
import { toInputSchema } from "./plugin-tools.ts";

type Tools = AgentExtensions["tools"];

/** Checks what models have to be given of the plugins' tools. */
function checkTools(tools: Tools, config: Config): Issue[] {
  return tools.flatMap(({ plugin, value }) => {
    const path = `plugins.${plugin}`;
    const issues: Issue[] = [];
    if (value.length > 0 && Object.hasOwn(config.mcp.servers, plugin))
      issues.push({
        path: `mcp.servers.${plugin}`,
        message: "a plugin with tools has this id: give the server another name",
      });
    for (const { name, input } of value) {
      try {
        toInputSchema(input);
      } catch {
        issues.push({
          path,
          message: `the input of the tool "${name}" must be a zod object that JSON Schema can describe`,
        });
      }
    }
    return issues;
  });
}

/** Returns what is wrong with a pattern, which may begin with `!`. */
export type ToolCheck = (pattern: string) => string | undefined;

/**
 * Creates the check that a pattern names tools of a server in `mcp.servers` or of a plugin: a name that is none would never be
 * missed. With `isIncomplete`, a plugin that could not be loaded may have an unknown name.
 */
export function createToolCheck(config: Config, tools: Tools, isIncomplete: boolean): ToolCheck {
  const servers = Object.keys(config.mcp.servers);
  const sources = [...servers, ...tools.map(({ plugin }) => plugin)];
  return (pattern) => {
    const [, source, tool] = /^!?([^.*]*)\.(.+)$/.exec(pattern) ?? [];
    if (source === undefined || tool === undefined)
      return "write `<server>.<tool>`, or `<server>.*` for all of its tools; `!` before it takes them away";
    if (servers.includes(source)) return undefined;
    if (source === OWN_SOURCE) return findOwnToolProblem(tool);
    const own = tools
      .filter(({ plugin }) => plugin === source)
      .flatMap(({ value }) => value.map(({ name }) => name));
    if (own.some((name) => coversTool([tool], name))) return undefined;
    if (own.length > 0)
      return `the plugin "${source}" has no tool "${tool.slice(0, 60)}".${didYouMean(tool, own)}`;
    if (isIncomplete) return undefined;
    return `mcp.servers has no "${source.slice(0, 60)}", and no plugin of this id has tools.${didYouMean(source, sources)}`;
  };
}

/** Returns the problems of a list of patterns; `path` is the list's. */
export function checkToolList(
  patterns: readonly string[],
  path: string,
  check: ToolCheck,
): Issue[] {
  const issues = patterns.flatMap((pattern, index): Issue[] => {
    const message = check(pattern);
    return message === undefined ? [] : [{ path: `${path}[${index}]`, message }];
  });
  if (patterns.length > 0 && patterns.every((pattern) => pattern.startsWith("!")))
    issues.push({
      path,
      message:
        "names no tool, it only takes some away: name those to take them from, such as `<server>.*`",
    });
  return issues;
}

/** Checks the plugins' tools, and the patterns of `hooks.tools` and of the agents. */
export function toolIssues(config: Config, tools: Tools, isIncomplete: boolean): Issue[] {
  const check = createToolCheck(config, tools, isIncomplete);
  return [
    ...checkTools(tools, config),
    ...checkToolList(config.hooks.tools, "hooks.tools", check),
    ...config.agents.list.flatMap((agent, index) =>
      checkToolList(agent.tools, `agents.list[${index}].tools`, check),
    ),
  ];
}
