import { parseInput } from "../../agent/tools/call-inputs.ts";
import { toModelName } from "../../agent/tools/offered-tool.ts";
import type { CallerTool } from "../../agent/types.ts";
import { isRecord } from "../../core/json.ts";
import { callerTool } from "./chat.ts";
import type { ResponsesBody } from "./responses-schema.ts";

type Tool = NonNullable<ResponsesBody["tools"]>[number];
type CallableTool = Extract<Tool, { type: "function" | "custom" }>;

/** The name by which the caller knows a tool. */
interface WireName {
  name: string;
  namespace?: string | null | undefined;
}

/** A tool of a request in its two forms. */
interface NamedTool {
  /** For the model: every tool is a function. */
  tool: CallerTool;
  wire: WireName;
  /** Its input is a text, not JSON. */
  isCustom: boolean;
}

/** The namespace of tools that have none. */
const DEFAULT = "functions";

/** Returns the name of a tool for the model, which knows no namespaces. */
export const getModelName = ({ name, namespace }: WireName): string =>
  !namespace || namespace === DEFAULT ? name : toModelName(`${namespace}.${name}`);

/** Returns a tool as a function. That of a custom tool has one text. */
function toFunction(tool: CallableTool): Parameters<typeof callerTool>[0] {
  if (tool.type === "function") return tool;
  const { name, description, format } = tool;
  const syntax = format?.definition
    ? { description: `Follows this ${format.syntax ?? ""} grammar:\n${format.definition}` }
    : {};
  const properties = { input: { type: "string", ...syntax } };
  return { name, description, parameters: { type: "object", properties, required: ["input"] } };
}

/** Lists the tools that the caller carries out. */
export function listCallerTools(tools: ResponsesBody["tools"]): NamedTool[] {
  const toNamed = (tool: CallableTool, namespace?: string): NamedTool => {
    const { name } = tool;
    const wire = namespace === undefined || namespace === DEFAULT ? { name } : { name, namespace };
    const given = { ...toFunction(tool), name: getModelName(wire) };
    return { tool: callerTool(given), wire, isCustom: tool.type === "custom" };
  };
  return (tools ?? []).flatMap((tool) => {
    if (!("name" in tool)) return [];
    if (tool.type === "namespace") return tool.tools.map((one) => toNamed(one, tool.name));
    return toNamed(tool);
  });
}

/** Returns the warnings of the run about tools that a server would have to carry out. */
export const warnOfHosted = (tools: ResponsesBody["tools"]): string[] =>
  [...new Set((tools ?? []).flatMap((tool) => ("name" in tool ? [] : tool.type)))].map(
    (type) => `tools of the type ${type} were left out: Rouse does not carry them out`,
  );

/** Returns the text that a custom tool gets. What is no such object is the text itself. */
export function readCustomInput(written: string): string {
  const read = parseInput(written);
  return isRecord(read) && typeof read["input"] === "string" ? read["input"] : written;
}
