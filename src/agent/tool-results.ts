import type { LanguageModelMiddleware } from "ai";
import type { Boundary } from "./boundary.ts";

type Transform = NonNullable<LanguageModelMiddleware["transformParams"]>;
type Message = Awaited<ReturnType<Transform>>["prompt"][number];
type ToolPart = Extract<Message, { role: "tool" }>["content"][number];
type Output = Extract<ToolPart, { type: "tool-result" }>["output"];

function toText(output: Output): string {
  switch (output.type) {
    case "execution-denied":
      return output.reason ?? "";
    default:
      return typeof output.value === "string" ? output.value : JSON.stringify(output.value ?? null);
  }
}

/**
 * Puts all that tools have said inside the run's boundary on its way to the model: results and errors, of this turn, of the
 * session's past and of the caller's own tools. A history keeps them raw. It stands between the SDK and the model, so that
 * no way of failing inside the SDK leads around it.
 */
export function boundToolResults(boundary: Boundary): LanguageModelMiddleware {
  /** Each step of a turn shows the results of all steps before it. */
  const wrapped = new Map<string, string>();
  const wrap = (text: string, tool: string): string => {
    const key = `${tool}\n${text}`;
    const value = wrapped.get(key) ?? boundary.wrap(text, `tool ${tool}`);
    wrapped.set(key, value);
    return value;
  };
  const toBoundPart = (part: ToolPart): ToolPart => {
    if (part.type !== "tool-result") return part;
    const type = part.output.type === "error-text" || part.output.type === "error-json" ? "error-text" : "text";
    return { ...part, output: { type, value: wrap(toText(part.output), part.toolName) } };
  };
  return {
    specificationVersion: "v4",
    transformParams: ({ params }) => {
      const prompt = params.prompt.map((message): Message =>
        message.role === "tool" ? { ...message, content: message.content.map(toBoundPart) } : message,
      );
      return Promise.resolve({ ...params, prompt });
    },
  };
}
