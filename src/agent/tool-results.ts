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
      return typeof output.value === "string" ? output.value : JSON.stringify(output.value);
  }
}

function toBoundOutput(output: Output, tool: string, boundary: Boundary): Output {
  const type = output.type === "error-text" || output.type === "error-json" ? "error-text" : "text";
  return { type, value: boundary.wrap(toText(output), `tool ${tool}`) };
}

/**
 * Puts all that tools have said inside the run's boundary on its way to the model: results and errors, of this turn, of the
 * session's past and of the caller's own tools. A history keeps them raw. It stands between the SDK and the model, so that
 * no way of failing inside the SDK leads around it.
 */
export const boundToolResults = (boundary: Boundary): LanguageModelMiddleware => ({
  specificationVersion: "v4",
  transformParams: ({ params }) => {
    const prompt = params.prompt.map((message): Message => {
      if (message.role !== "tool") return message;
      const content = message.content.map((part): ToolPart =>
        part.type === "tool-result" ? { ...part, output: toBoundOutput(part.output, part.toolName, boundary) } : part,
      );
      return { ...message, content };
    });
    return Promise.resolve({ ...params, prompt });
  },
});
