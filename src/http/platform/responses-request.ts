import type { ChatRequest, ChatSession } from "../../actions/chat-types.ts";
import type { RunRecord, Store } from "../../store/types.ts";
import { callerTool, given, jsonFormat, sessionFor, thinkingOf } from "./chat-request.ts";
import type { ChatMessage } from "./chat-schema.ts";
import type { ApiKey } from "./keys.ts";
import type { Conversation } from "./messages.ts";
import { badRequest, type Problem, type Result } from "./problems.ts";
import type { ResponseItem, ResponsesBody } from "./responses-schema.ts";

type Message = Extract<ResponseItem, { role: string }>;
type Known = Exclude<ResponseItem, { type: "item_reference" }>;

interface Owner {
  key: ApiKey;
  agentId: string;
  store: Store;
}

/** A run that this key had of this agent: another's are not there for it. */
async function ownRun(id: string, { key, agentId, store }: Owner): Promise<RunRecord | undefined> {
  const run = await store.getRun(id);
  return run?.kind === "api" && run.spec.session.key.startsWith(`api:${key.id}:${agentId}:`) ? run : undefined;
}

/** The input with what it only refers to: a client sends an earlier answer as its id alone. */
export async function withReferences(input: ResponsesBody["input"], owner: Owner): Promise<Result<string | readonly Known[]>> {
  if (typeof input === "string") return { ok: true, value: input };
  const items: Known[] = [];
  for (const [index, item] of input.entries()) {
    if (item.type !== "item_reference") {
      items.push(item);
      continue;
    }
    const run = item.id.startsWith("msg_") ? await ownRun(item.id.slice(4), owner) : undefined;
    if (run?.reply === undefined)
      return { ok: false, problem: badRequest(`input[${index}].id`, "there is no such answer; send it whole", "item_not_found") };
    items.push({ role: "assistant", content: run.reply });
  }
  return { ok: true, value: items };
}
type Part = Exclude<Message["content"], string>[number];

const wordsOf = (part: Part): string => (part.type === "refusal" ? part.refusal : "text" in part ? part.text : "");

function userPart(part: Part): Exclude<Extract<ChatMessage, { role: "user" }>["content"], string>[number] {
  if (part.type === "input_image") return { type: "image_url", image_url: { url: part.image_url } };
  return { type: "text", text: wordsOf(part) };
}

function messageOf({ role, content }: Message): ChatMessage {
  if (role === "user") return { role, content: typeof content === "string" ? content : content.map(userPart) };
  return { role, content: typeof content === "string" ? content : content.map(wordsOf).join("") };
}

/** The items of an input as chat messages: one after the other, calls that belong together in one. */
export function messagesOf(input: string | readonly Known[]): ChatMessage[] {
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
    } else messages.push(messageOf(item));
  }
  return messages;
}

const notFound: Problem = {
  status: 404,
  type: "invalid_request_error",
  code: "previous_response_not_found",
  param: "previous_response_id",
  message: "there is no such response of this key and model that was kept",
};

/** Where a request belongs: after a response, in a session, or in a conversation that it begins. */
export async function responseSession(body: ResponsesBody, named: string | undefined, owner: Owner): Promise<Result<ChatSession>> {
  const { previous_response_id: previous, conversation } = body;
  if (typeof previous === "string") {
    const run = await ownRun(previous.replace(/^resp_/, ""), owner);
    const kept = run && (await owner.store.getTurns(run.spec.session)).some((turn) => turn.runId === run.id);
    return kept ? { ok: true, value: { kind: "after", run, keep: body.store !== false } } : { ok: false, problem: notFound };
  }
  const name = named ?? (typeof conversation === "string" ? conversation : conversation?.id);
  if (name !== undefined || body.store === false) return { ok: true, value: sessionFor(name) };
  return { ok: true, value: { kind: "new" } };
}

/** The turn that the request asks for. */
export function responseRequest(
  body: ResponsesBody,
  { instructions, said, hasHistory }: Conversation,
  base: Pick<ChatRequest, "agent" | "caller" | "session">,
): ChatRequest {
  const { tool_choice: choice } = body;
  const format = body.text?.format;
  const thinking = thinkingOf(body.reasoning?.effort);
  const all = [body.instructions, instructions].filter(Boolean).join("\n\n");
  return {
    ...base,
    callerKeepsHistory: base.session.kind === "named" && hasHistory,
    said,
    stream: body.stream ?? false,
    sampling: {
      ...given({
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
