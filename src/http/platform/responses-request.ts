import type { ChatRequest, ChatSession } from "../../chat/types.ts";
import type { EarlierRuns, RunOwner } from "../../chat/earlier-runs.ts";
import { callerTool, withoutNullish, jsonFormat, sessionFor, toThinking } from "./chat-request.ts";
import type { ChatMessage } from "./chat-schema.ts";
import type { Conversation } from "./messages.ts";
import { badRequest, type ApiProblem, type Result } from "./problems.ts";
import type { ResponseItem, ResponsesBody } from "./responses-schema.ts";

type Message = Extract<ResponseItem, { role: string }>;
type InputItem = Exclude<ResponseItem, { type: "item_reference" }>;

/** What earlier turns the request may refer to. */
export interface Earlier {
  runs: EarlierRuns;
  owner: RunOwner;
}

/** The input with what it only refers to: a client sends an earlier answer as its id alone. */
export async function withReferences(
  input: ResponsesBody["input"],
  { runs, owner }: Earlier,
): Promise<Result<string | readonly InputItem[]>> {
  if (typeof input === "string") return { ok: true, value: input };
  const items: InputItem[] = [];
  for (const [index, item] of input.entries()) {
    if (item.type !== "item_reference") {
      items.push(item);
      continue;
    }
    const reply = item.id.startsWith("msg_") ? await runs.getReply(item.id.slice(4), owner) : undefined;
    if (reply === undefined)
      return { ok: false, problem: badRequest(`input[${index}].id`, "there is no such answer; send it whole", "item_not_found") };
    items.push({ role: "assistant", content: reply });
  }
  return { ok: true, value: items };
}
type Part = Exclude<Message["content"], string>[number];

const getText = (part: Part): string => (part.type === "refusal" ? part.refusal : "text" in part ? part.text : "");

function userPart(part: Part): Exclude<Extract<ChatMessage, { role: "user" }>["content"], string>[number] {
  if (part.type === "input_image") return { type: "image_url", image_url: { url: part.image_url } };
  return { type: "text", text: getText(part) };
}

function toMessage({ role, content }: Message): ChatMessage {
  if (role === "user") return { role, content: typeof content === "string" ? content : content.map(userPart) };
  return { role, content: typeof content === "string" ? content : content.map(getText).join("") };
}

/** The items of an input as chat messages: one after the other, calls that belong together in one. */
export function toMessages(input: string | readonly InputItem[]): ChatMessage[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  const messages: ChatMessage[] = [];
  for (const item of input) {
    if (item.type === "function_call") {
      const call = { id: item.call_id, type: "function" as const, function: { name: item.name, arguments: item.arguments } };
      const last = messages.at(-1);
      if (last?.role === "assistant") last.tool_calls = [...(last.tool_calls ?? []), call];
      else messages.push({ role: "assistant", content: null, tool_calls: [call] });
    } else if (item.type === "function_call_output") {
      const output = typeof item.output === "string" ? item.output : item.output.map(({ text }) => text).join("");
      messages.push({ role: "tool", tool_call_id: item.call_id, content: output });
    } else messages.push(toMessage(item));
  }
  return messages;
}

const notFound: ApiProblem = {
  status: 404,
  type: "invalid_request_error",
  code: "previous_response_not_found",
  param: "previous_response_id",
  message: "there is no such response of this key and model that was kept",
};

/** Where a request belongs: after a response, in a session, or in a conversation that it begins. */
export async function responseSession(
  body: ResponsesBody,
  named: string | undefined,
  { runs, owner }: Earlier,
): Promise<Result<ChatSession>> {
  const { previous_response_id: previous, conversation } = body;
  if (typeof previous === "string") {
    const run = await runs.findKept(previous.replace(/^resp_/, ""), owner);
    return run ? { ok: true, value: { kind: "after", run, keep: body.store !== false } } : { ok: false, problem: notFound };
  }
  const name = named ?? (typeof conversation === "string" ? conversation : conversation?.id);
  if (name !== undefined || body.store === false) return { ok: true, value: sessionFor(name) };
  return { ok: true, value: { kind: "new" } };
}

/** The turn that the request asks for. */
export function responseRequest(
  body: ResponsesBody,
  { instructions, messages: said, hasHistory }: Conversation,
  base: Pick<ChatRequest, "agent" | "caller" | "session">,
): ChatRequest {
  const { tool_choice: choice } = body;
  const format = body.text?.format;
  const thinking = toThinking(body.reasoning?.effort);
  const all = [body.instructions, instructions].filter(Boolean).join("\n\n");
  return {
    ...base,
    callerKeepsHistory: base.session.kind === "named" && hasHistory,
    messages: said,
    stream: body.stream ?? false,
    sampling: {
      ...withoutNullish({
        temperature: body.temperature,
        topP: body.top_p,
        maxOutputTokens: body.max_output_tokens,
        toolChoice: typeof choice === "object" && choice ? { tool: choice.name } : choice,
        parallelToolCalls: body.parallel_tool_calls,
      }),
      ...jsonFormat(format?.type === "json_schema" ? { type: "json_schema", json_schema: format } : format),
    },
    tools: (body.tools ?? []).map(callerTool),
    ...(all === "" ? {} : { instructions: all }),
    ...(thinking === undefined ? {} : { thinking }),
  };
}
