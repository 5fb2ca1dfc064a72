import type { Sampling } from "../../agent/types.ts";
import type { ChatSession } from "../../chat/types.ts";
import { commonSampling, jsonFormat, sessionFor, toThinking } from "./chat.ts";
import { responseAnswer } from "./answer-schemas.ts";
import { UNSUPPORTED } from "./chat-schema.ts";
import type { PlacedMessage, UserPart } from "./messages.ts";
import { badRequest, notThere } from "./problems.ts";
import { withoutNullish } from "./read.ts";
import {
  functionItem,
  OWN_REASONING,
  renderResponse,
  storedResponse,
  toEcho,
} from "./responses-output.ts";
import {
  FOREIGN,
  type ResponseItem,
  type ResponsesBody,
  responsesBody,
} from "./responses-schema.ts";
import { getModelName, listCallerTools, warnOfHosted } from "./responses-tools.ts";
import { type FormContext, serveTurn } from "./turn.ts";
import { defineRoute } from "./types.ts";

/** The earlier turns that a request may refer to. */
type Earlier = Pick<FormContext, "runs" | "owner">;
type Message = Extract<ResponseItem, { role: string }>;
type Reasoning = Extract<ResponseItem, { type: "reasoning" }>;
type FunctionCall = Extract<ResponseItem, { type: "function_call" }>;
type InputItem = Message | Reasoning | FunctionCall | Extract<ResponseItem, { output: unknown }>;
/** An item, and the place that it has in the request. */
interface PlacedItem {
  item: InputItem;
  at: string;
}

/** True if a request has input besides its instructions. */
const hasInput = ({ input }: ResponsesBody): boolean => (input ?? []).length > 0;

/** Custom tools, and those of a namespace, are functions to the model. */
function toFunctionCall(item: ResponseItem): InputItem {
  if (item.type === "function_call") return { ...item, name: getModelName(item) };
  if (item.type !== "custom_tool_call") return item as InputItem;
  const { call_id, input } = item;
  const written = JSON.stringify({ input });
  return { type: "function_call", call_id, name: getModelName(item), arguments: written };
}

/**
 * Reads the input with what it only refers to: a client sends an earlier answer as its id alone. Instructions without an
 * input are the input: a model needs a message to answer. `leftOut` has the warnings of the run.
 * @throws ProblemError
 */
async function resolveInput(
  body: ResponsesBody,
  { runs, owner }: Earlier,
): Promise<{ items: readonly PlacedItem[]; leftOut: string[] }> {
  const input = hasInput(body) ? (body.input ?? []) : (body.instructions ?? "");
  if (input === "") throw badRequest("input", "input: send at least one item, or `instructions`");
  if (typeof input === "string")
    return { items: [{ item: { role: "user", content: input }, at: "input" }], leftOut: [] };
  const items: PlacedItem[] = [];
  const leftOut = new Set<string>();
  for (const [index, given] of input.entries()) {
    const at = `input[${index}]`;
    const type = given.type ?? "message";
    if (FOREIGN.test(type)) {
      leftOut.add(`items of the type ${type} were left out: a tool of another server made them`);
      continue;
    }
    const item = given as ResponseItem;
    // The reasoning of an earlier answer is not kept apart from the answer.
    if (item.type === "item_reference" && item.id.startsWith("rs_")) continue;
    if (item.type === "item_reference")
      items.push({ item: await findItem(item.id, at, { runs, owner }), at });
    else items.push({ item: toFunctionCall(item), at });
  }
  return { items, leftOut: [...leftOut] };
}

/** Finds the words or the call of an earlier answer. */
async function findItem(id: string, at: string, { runs, owner }: Earlier): Promise<InputItem> {
  const [, kind, runId = "", n] = /^(msg|fc|ctc)_(run_[^_]+)(?:_(\d+))?$/.exec(id) ?? [];
  const { reply, answer } = (await runs.find(runId, owner)) ?? {};
  if (kind === "msg" && reply !== undefined) return { role: "assistant", content: reply };
  const call = kind === "msg" ? undefined : answer?.calls[Number(n)];
  if (call) return functionItem(runId, call, Number(n));
  throw badRequest(`${at}.id`, "there is no such answer; send it whole", "item_not_found");
}

type Part = Exclude<Message["content"], string>[number];

const getText = (part: Part): string =>
  part.type === "refusal" ? part.refusal : "text" in part ? part.text : "";

function userPart(part: Part, at: string): UserPart & { at: string } {
  if (part.type === "input_image") {
    const { image_url: given, detail } = part;
    const image_url = typeof given === "string" ? { url: given, detail } : given;
    return { type: "image_url", image_url, at };
  }
  if (part.type === "input_file") return { type: "file", file: part, at };
  return { type: "text", text: getText(part), at };
}

const toText = (content: Message["content"]): string =>
  typeof content === "string" ? content : content.map(getText).join("");

function toMessage({ role, content }: Message, at: string): PlacedMessage {
  if (role !== "user" || typeof content === "string") return { role, content: toText(content), at };
  return { role, content: content.map((part, n) => userPart(part, `${at}.content[${n}]`)) };
}

function getReasoning({ content, summary, encrypted_content: kept }: Reasoning): string {
  const parts = content?.length ? content : (summary ?? []);
  if (parts.length === 0 && kept?.startsWith(OWN_REASONING))
    return kept.slice(OWN_REASONING.length);
  return parts.map((part) => part.text).join("\n\n");
}

/** The items of an input as chat messages: one after the other, calls, words and thoughts that belong together in one. */
function toMessages(items: readonly PlacedItem[]): PlacedMessage[] {
  const messages: PlacedMessage[] = [];
  /** The reasoning before the answer that follows. */
  let thoughts: string[] = [];
  const endThoughts = (): void => {
    const answer = messages.at(-1);
    if (answer?.role === "assistant" && thoughts.length > 0)
      answer.reasoning_content = [answer.reasoning_content ?? [], thoughts].flat().join("\n\n");
    thoughts = [];
  };
  for (const { item, at } of items) {
    const last = messages.at(-1);
    if (item.type === "reasoning") {
      const text = getReasoning(item);
      if (text !== "") thoughts.push(text);
    } else if (item.type === "function_call") {
      const call = {
        id: item.call_id,
        type: "function" as const,
        function: { name: item.name, arguments: item.arguments },
      };
      if (last?.role === "assistant") last.tool_calls = [...(last.tool_calls ?? []), call];
      else messages.push({ role: "assistant", content: null, tool_calls: [call], at });
      endThoughts();
    } else if ("output" in item) {
      const { call_id: id, output } = item;
      const content = Array.isArray(output)
        ? output.map((part, n) => userPart(part, `${at}.output[${n}]`))
        : output;
      // A client may send an image that belongs to one result before the next: here results follow their calls.
      const isCaller = (one: PlacedMessage): boolean =>
        one.role === "assistant" && !!one.tool_calls?.some((call) => call.id === id);
      let place = messages.findLastIndex(isCaller) + 1 || messages.length;
      while (messages[place]?.role === "tool") place++;
      messages.splice(place, 0, { role: "tool", tool_call_id: id, content, at });
    } else if (item.role === "assistant" && last?.role === "assistant" && last.tool_calls) {
      // Words that came after a call, and before its result.
      const before = typeof last.content === "string" ? [last.content] : [];
      last.content = [...before, toText(item.content)].join("\n\n");
      endThoughts();
      // An answer without words that called no tool either says nothing.
    } else if (item.role !== "assistant" || item.content.length > 0) {
      messages.push(toMessage(item, at));
      endThoughts();
    }
  }
  return messages;
}

/** Finds the session of a request: that of an earlier response, a named one, or a new one. */
async function responseSession(
  body: ResponsesBody,
  named: string | undefined,
  { runs, owner }: Earlier,
): Promise<ChatSession> {
  const { previous_response_id: previous, conversation } = body;
  if (typeof previous === "string" && conversation)
    throw badRequest("conversation", "conversation: send either this or previous_response_id");
  if (typeof previous === "string") {
    const run = await runs.findKept(previous.replace(/^resp_/, ""), owner);
    if (!run)
      throw notThere(
        "previous_response_not_found",
        "previous_response_id",
        "there is no such response of this key and model that was kept",
      );
    return { kind: "after", run, keep: body.store !== false };
  }
  const name = named ?? (typeof conversation === "string" ? conversation : conversation?.id);
  if (name !== undefined || body.store === false) return sessionFor(name);
  return { kind: "new" };
}

/** The format of the answer as chat completions have it. */
function toChatFormat(format: NonNullable<ResponsesBody["text"]>["format"]) {
  if (format?.type !== "json_schema") return format;
  const { type, ...json_schema } = format;
  return { type, json_schema };
}

function toToolChoice(choice: Exclude<ResponsesBody["tool_choice"], string | null | undefined>) {
  if ("name" in choice) return { tool: getModelName(choice) };
  throw badRequest(
    "tool_choice.type",
    "tool_choice.type: Rouse carries out no hosted tools: send `auto`, `none` or `required`, or name a tool of the type `function` or `custom`",
    UNSUPPORTED,
  );
}

function toSampling(body: ResponsesBody): Sampling {
  const { tool_choice: choice } = body;
  return {
    ...withoutNullish({
      ...commonSampling(body),
      maxOutputTokens: body.max_output_tokens,
      toolChoice: typeof choice === "object" && choice ? toToolChoice(choice) : choice,
    }),
    ...jsonFormat(toChatFormat(body.text?.format)),
  };
}

/** `GET /v1/responses/{id}` */
export const showResponse = defineRoute({
  scope: "chat",
  operationId: "showResponse",
  summary: "A response that was kept",
  answer: responseAnswer,
  async handle({ c, key, id }, { earlierRuns }) {
    if (c.req.query("stream") === "true")
      throw badRequest(
        "stream",
        "stream: a response that is kept is not streamed again; leave it out",
        UNSUPPORTED,
      );
    const found = await earlierRuns.findResponse(id.replace(/^resp_/, ""), key.id);
    if (found && (key.agents?.includes(found.agentId) ?? true)) return storedResponse(found);
    throw notThere(
      "response_not_found",
      "response_id",
      "there is no such response of this key that was kept",
    );
  },
});

/** `POST /v1/responses`: another form of the same turn. */
export const createResponse = serveTurn<ResponsesBody>({
  route: "responses",
  field: "input",
  schema: responsesBody,
  async read(body, context) {
    if (body.background && body.store === false)
      throw badRequest(
        "background",
        "background: a response that is not kept cannot be read later",
      );
    const session = await responseSession(body, context.session, context);
    const { items, leftOut } = await resolveInput(body, context);
    const approver = `api:${context.caller.key.id}`;
    return {
      session,
      messages: toMessages(items),
      ...(hasInput(body) && withoutNullish({ instructions: body.instructions })),
      sampling: toSampling(body),
      tools: listCallerTools(body.tools).map(({ tool }) => tool),
      ...withoutNullish({ thinking: toThinking(body.reasoning?.effort) }),
      warnings: [...leftOut, ...warnOfHosted(body.tools)],
      ...(body.store !== false && { response: toEcho(body) }),
      isAwaited: !body.background || body.stream === true,
      canAsk: body.stream === true && context.snapshot.approvers.includes(approver),
    };
  },
  render: (body, { runId, createdAt }, model) =>
    renderResponse({ runId, createdAt, model, echo: toEcho(body) }),
});
