import type { LanguageModelMiddleware, ModelMessage } from "ai";
import { toWellFormed } from "../../core/text.ts";
import { createBoundary, type Boundary } from "../boundary.ts";
import { renderFile } from "./tool-results.ts";

type Transform = NonNullable<LanguageModelMiddleware["transformParams"]>;
type Message = Awaited<ReturnType<Transform>>["prompt"][number];
type UserPart = Extract<Message, { role: "user" }>["content"][number];
type ToolPart = Extract<Message, { role: "tool" }>["content"][number];
type ResultPart = Extract<ToolPart, { type: "tool-result" }>;
type Output = ResultPart["output"];
type Content = Extract<Output, { type: "content" }>["value"][number];
type FilePart = Extract<UserPart, { type: "file" }>;

/**
 * The place of the images of a tool's result: in the result, in a user message after the results (chat completions
 * accept only text in a result), or nowhere.
 */
export type ImagePlace = "result" | "message" | "nowhere";

const CANNOT_SEE = "this model cannot see images";
const CANNOT_READ = "models cannot read this kind of file";
const FOLLOWS = "it is shown after the results";

const getBase64 = ({ data }: FilePart): string | undefined =>
  data.type === "data"
    ? typeof data.data === "string"
      ? data.data
      : Buffer.from(data.data).toString("base64")
    : undefined;

function toText(output: Exclude<Output, { type: "content" }>): string {
  if (output.type === "execution-denied") return output.reason ?? "";
  return typeof output.value === "string" ? output.value : JSON.stringify(output.value ?? null);
}

/** Returns the text of a result, in which the files are named, and the images to show. */
function divideContent(
  content: readonly Content[],
  place: ImagePlace,
): { text: string; images: FilePart[] } {
  const images: FilePart[] = [];
  const texts = content.flatMap((part) => {
    if (part.type === "text") return part.text;
    if (part.type !== "file") return renderFile("unknown", undefined, CANNOT_READ);
    const file: FilePart = { type: "file", mediaType: part.mediaType, data: part.data };
    const isImage = part.mediaType.startsWith("image/");
    if (isImage && place !== "nowhere") images.push(file);
    if (isImage && place === "result") return [];
    return renderFile(
      part.mediaType,
      getBase64(file),
      isImage ? (place === "nowhere" ? CANNOT_SEE : FOLLOWS) : CANNOT_READ,
    );
  });
  return { text: texts.join("\n"), images };
}

/** Puts images between the boundary markers of a wrapped text, after the text. */
export function wrapFiles<T>(
  wrapped: string,
  id: string,
  images: readonly T[],
): ({ type: "text"; text: string } | T)[] {
  const end = `<<<END_EXTERNAL_CONTENT ${id}>>>`;
  return [
    { type: "text", text: wrapped.slice(0, -end.length) },
    ...images,
    { type: "text", text: end },
  ];
}

/** Puts messages after the results of a step: providers require the results to follow the calls directly. */
function addImages(
  messages: readonly (readonly [message: Message, shown: readonly UserPart[]])[],
): Message[] {
  return messages.flatMap(([message, shown], index): Message[] => {
    if (message.role !== "tool" || messages[index + 1]?.[0].role === "tool") return [message];
    const first = messages.slice(0, index).findLastIndex(([before]) => before.role !== "tool") + 1;
    const content = [...messages.slice(first, index).flatMap(([, parts]) => parts), ...shown];
    return content.length === 0 ? [message] : [message, { role: "user", content }];
  });
}

/** The name under which a message carries the id of its boundary to `boundToolResults`. */
const MARK = "rouse";

/** Marks a message with tool results of an earlier turn with the id of that turn's boundary. */
export const markBoundary = (message: ModelMessage, boundaryId: string): ModelMessage =>
  message.role === "tool" ? { ...message, providerOptions: { [MARK]: { boundaryId } } } : message;

/**
 * Puts all output of tools inside the run's boundary before the model gets it: results, errors and images, of this turn, of
 * earlier turns and of the caller's own tools. A history keeps them raw. The middleware is between the SDK and the model, so
 * that no error path of the SDK bypasses it.
 */
export function boundToolResults(boundary: Boundary, place: ImagePlace): LanguageModelMiddleware {
  /** Wrapped texts, kept because each step of a turn contains the results of all earlier steps. */
  const wrapped = new Map<string, string>();
  const wrap = (text: string, tool: string, own: Boundary): string => {
    const key = `${own.id}\n${tool}\n${text}`;
    const value = wrapped.get(key) ?? own.wrap(text, `tool ${tool}`);
    wrapped.set(key, value);
    return value;
  };
  const toBoundPart = (part: ToolPart, own: Boundary): [part: ToolPart, shown: UserPart[]] => {
    if (part.type !== "tool-result") return [part, []];
    const { output, toolName } = part;
    if (output.type !== "content") {
      const type =
        output.type === "error-text" || output.type === "error-json" ? "error-text" : "text";
      return [{ ...part, output: { type, value: wrap(toText(output), toolName, own) } }, []];
    }
    const { text, images } = divideContent(output.value, place);
    const bound = wrap(text, toolName, own);
    if (images.length === 0) return [{ ...part, output: { type: "text", value: bound } }, []];
    if (place === "result")
      return [
        { ...part, output: { type: "content", value: wrapFiles(bound, own.id, images) } },
        [],
      ];
    const shown = wrapFiles(wrap("What the tool has shown:", toolName, own), own.id, images);
    return [{ ...part, output: { type: "text", value: bound } }, shown];
  };
  const toBoundMessage = (message: Message): [message: Message, shown: UserPart[]] => {
    if (message.role !== "tool") return [message, []];
    const { [MARK]: mark, ...providerOptions } = message.providerOptions ?? {};
    const id = mark?.["boundaryId"];
    const own = typeof id === "string" ? createBoundary(id) : boundary;
    const parts = message.content.map((part) => toBoundPart(part, own));
    return [
      { ...message, providerOptions, content: parts.map(([part]) => part) },
      parts.flatMap(([, shown]) => shown),
    ];
  };
  return {
    specificationVersion: "v4",
    transformParams: ({ params }) =>
      Promise.resolve({ ...params, prompt: addImages(params.prompt.map(toBoundMessage)) }),
  };
}

/** Vendors reject a request with half of a surrogate pair, which senders make by cutting a text. */
export const sendingWellFormed: LanguageModelMiddleware = {
  specificationVersion: "v4",
  transformParams: ({ params }) => Promise.resolve(toWellFormed(params)),
};
