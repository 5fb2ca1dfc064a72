import type { ConversationMessage, ConversationPart, ToolCall } from "../../agent/types.ts";
import type { ChatMessage } from "./chat-schema.ts";
import { loadImage, type ImageLimits } from "./images.ts";
import { badRequest, type Result } from "./problems.ts";

/** A conversation as the runtime takes it: what a program says apart from what its user and the model said. */
export interface Conversation {
  instructions: string | undefined;
  messages: ConversationMessage[];
  /** True where the caller sends the conversation so far, and so owns it. */
  hasHistory: boolean;
}

const toText = (content: string | readonly ({ type: "text"; text: string } | { type: "refusal"; refusal: string })[]): string =>
  typeof content === "string" ? content : content.map((part) => (part.type === "text" ? part.text : part.refusal)).join("");

type UserContent = Extract<ChatMessage, { role: "user" }>["content"];

async function userParts(content: UserContent, param: string, limits: ImageLimits): Promise<Result<ConversationPart[]>> {
  if (typeof content === "string") return { ok: true, value: [{ type: "text", text: content }] };
  const parts: ConversationPart[] = [];
  for (const [index, part] of content.entries()) {
    if (part.type === "text") {
      parts.push({ type: "text", text: part.text });
      continue;
    }
    const image = await loadImage(part.image_url.url, `${param}[${index}].image_url.url`, limits);
    if (!image.ok) return image;
    parts.push({ type: "image", mediaType: image.mediaType, data: image.data });
  }
  return { ok: true, value: parts };
}

function parseCalls(message: Extract<ChatMessage, { role: "assistant" }>, param: string): Result<ToolCall[]> {
  const calls: ToolCall[] = [];
  for (const [index, { id, function: called }] of (message.tool_calls ?? []).entries()) {
    try {
      calls.push({ id, tool: called.name, input: called.arguments.trim() === "" ? {} : (JSON.parse(called.arguments) as unknown) });
    } catch {
      return { ok: false, problem: badRequest(`${param}.tool_calls[${index}].function.arguments`, "the arguments are not valid JSON") };
    }
  }
  return { ok: true, value: calls };
}

/** Every call has its result right behind it, and every result a call: providers refuse anything else. */
function pairingProblem(
  said: readonly ConversationMessage[],
  describePlace: (index: number) => string,
  continues: boolean,
): Result<undefined> {
  let open: string[] = [];
  const missing = (index: number): Result<undefined> => ({
    ok: false,
    problem: badRequest(describePlace(index), "each call of a tool must be followed by its result, a message of the role `tool`"),
  });
  for (const [index, message] of said.entries()) {
    // The calls that come first may be in a turn that the server has kept.
    if (message.role === "tool" && continues && message.tool === "") continue;
    if (message.role === "tool") {
      if (!open.includes(message.callId)) {
        const text = "tool_call_id: no call right before it has this id";
        return { ok: false, problem: badRequest(`${describePlace(index)}.tool_call_id`, text) };
      }
      open = open.filter((id) => id !== message.callId);
      continue;
    }
    if (open.length > 0) return missing(index - 1);
    open = message.role === "assistant" ? message.calls.map(({ id }) => id) : [];
  }
  return open.length > 0 ? missing(said.length - 1) : { ok: true, value: undefined };
}

export interface ReadOptions {
  images: ImageLimits;
  /** The field of the request that the messages come from. */
  field: string;
  /** They go on with a turn that the server has kept: results of its calls may come first. */
  continues: boolean;
}

/** Takes a list of messages apart. */
export async function readMessages(messages: readonly ChatMessage[], options: ReadOptions): Promise<Result<Conversation>> {
  const { field, continues } = options;
  const system: string[] = [];
  const said: ConversationMessage[] = [];
  /** Where each message stood in the request. */
  const at: number[] = [];
  const tools = new Map<string, string>();
  for (const [index, message] of messages.entries()) {
    const param = `${field}[${index}]`;
    switch (message.role) {
      case "system":
      case "developer":
        system.push(toText(message.content));
        continue;
      case "user": {
        const parts = await userParts(message.content, `${param}.content`, options.images);
        if (!parts.ok) return parts;
        said.push({ role: "user", parts: parts.value });
        break;
      }
      case "assistant": {
        const calls = parseCalls(message, param);
        if (!calls.ok) return calls;
        for (const { id, tool } of calls.value) tools.set(id, tool);
        said.push({ role: "assistant", text: toText(message.content ?? ""), calls: calls.value });
        break;
      }
      case "tool":
        said.push({
          role: "tool",
          callId: message.tool_call_id,
          tool: tools.get(message.tool_call_id) ?? "",
          text: toText(message.content),
        });
    }
    at.push(index);
  }
  const users = said.filter((message) => message.role === "user").length;
  const answers = continues && said.some((message) => message.role === "tool");
  if (users === 0 && !answers) return { ok: false, problem: badRequest(field, "send at least one message of the role `user`") };
  const paired = pairingProblem(said, (index) => `${field}[${at[index] ?? 0}]`, continues);
  if (!paired.ok) return paired;
  const instructions = system.filter((text) => text.trim() !== "").join("\n\n");
  return {
    ok: true,
    value: { instructions: instructions === "" ? undefined : instructions, messages: said, hasHistory: users > 1 || said.length > users },
  };
}
