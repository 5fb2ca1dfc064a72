import type { Config } from "../config/schema/index.ts";
import { didYouMean } from "../config/suggest.ts";
import type { Issue } from "../core/errors.ts";
import type { AgentExtensions } from "./extensions.ts";
import { toInputSchema } from "./plugin-tools.ts";

type Tools = AgentExtensions["tools"];

const MAX_NAME = 64;

/** Checks what models have to be given of the plugins' tools. */
function checkTools(tools: Tools, config: Config): Issue[] {
  return tools.flatMap(({ plugin, value }) => {
    const path = `plugins.${plugin}`;
    const issues: Issue[] = [];
    if (value.length > 0 && Object.hasOwn(config.mcp.servers, plugin))
      issues.push({ path: `mcp.servers.${plugin}`, message: "a plugin with tools has this id: give the server another name" });
    for (const { name, input } of value) {
      if (`${plugin}__${name}`.length > MAX_NAME)
        issues.push({
          path,
          message: `the name of the tool "${name}" is too long: with the id of its plugin at most ${MAX_NAME - 2} characters`,
        });
      try {
        toInputSchema(input);
      } catch {
        issues.push({ path, message: `the input of the tool "${name}" must be a zod object that JSON Schema can describe` });
      }
    }
    return issues;
  });
}

/**
 * Creates the check of one pattern: returns what is wrong with it. With `isIncomplete`, a plugin that could not be loaded may
 * have an unknown name.
 */
export function createToolCheck(config: Config, tools: Tools, isIncomplete: boolean): (pattern: string) => string | undefined {
  const servers = Object.keys(config.mcp.servers);
  const sources = [...servers, ...tools.map(({ plugin }) => plugin)];
  return (pattern) => {
    const [, source, tool] = /^([^.]*)\.(.+)$/.exec(pattern) ?? [];
    if (source === undefined || tool === undefined) return "write `<server>.<tool>`, or `<server>.*` for all of its tools";
    if (servers.includes(source)) return undefined;
    const own = tools.filter(({ plugin }) => plugin === source).flatMap(({ value }) => value.map(({ name }) => name));
    if (tool === "*" ? own.length > 0 : own.includes(tool)) return undefined;
    if (own.length > 0) return `the plugin "${source}" has no tool "${tool.slice(0, 60)}".${didYouMean(tool, own)}`;
    if (isIncomplete) return undefined;
    return `mcp.servers has no "${source.slice(0, 60)}", and no plugin of this id has tools.${didYouMean(source, sources)}`;
  };
}

/**
 * Checks that tools are named `<server>.<tool>` or `<server>.*` of a server in `mcp.servers` or of a plugin: a name that is
 * none would never be missed. With `isIncomplete`, a plugin that could not be loaded may have an unknown name.
 */
export function toolIssues(config: Config, tools: Tools, isIncomplete: boolean): Issue[] {
  const lists: [path: string, patterns: readonly string[]][] = [
    ["hooks.tools", config.hooks.tools],
    ...config.agents.list.map((agent, index): [string, readonly string[]] => [`agents.list[${index}].tools`, agent.tools]),
  ];
  const check = createToolCheck(config, tools, isIncomplete);
  const named = lists.flatMap(([path, patterns]) =>
    patterns.flatMap((pattern, index): Issue[] => {
      const message = check(pattern);
      return message === undefined ? [] : [{ path: `${path}[${index}]`, message }];
    }),
  );
  return [...checkTools(tools, config), ...named];
}
