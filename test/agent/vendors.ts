import type { IncomingMessage, ServerResponse } from "node:http";
import { listenOn, readText } from "../channels/wire.ts";

/** A request to a model server. */
export interface ModelRequest {
  path: string;
  headers: IncomingMessage["headers"];
  // oxlint-disable-next-line typescript/no-explicit-any -- each vendor's body has a shape of its own
  body: any;
}

/** The server's answer: a text, a call of a tool, or `undefined` if the handler has answered itself. */
export type Said = { text: string } | { tool: string; input: object } | undefined;

export type Handler = (request: ModelRequest, response: ServerResponse) => Said | Promise<Said>;

/** One vendor's wire format: how an answer looks, and where a request keeps what. */
export interface Vendor {
  type: "openai-compatible" | "openai" | "anthropic" | "google";
  /** Appended to the server's address for `baseUrl`. */
  base: string;
  path: string;
  /** The header that carries the key, and what stands in it. */
  key(secret: string): [name: string, value: string];
  answer(said: NonNullable<Said>, model: string): object;
  instructions(request: ModelRequest): string;
  /** Roles and texts of the conversation, without the instructions. */
  turns(request: ModelRequest): { role: string; text: string }[];
  toolNames(request: ModelRequest): string[];
  /** The field of the request that a level of thinking sets. */
  thinking(request: ModelRequest): unknown;
}

const textOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : content === undefined
      ? ""
      : JSON.stringify(content, (_key, value: unknown) => value);
const bearer = (secret: string): [string, string] => ["authorization", `Bearer ${secret}`];

const compatible: Vendor = {
  type: "openai-compatible",
  base: "/v1",
  path: "/v1/chat/completions",
  key: bearer,
  answer: (said, model) => ({
    id: "c1",
    object: "chat.completion",
    created: 1,
    model,
    choices: [
      {
        index: 0,
        finish_reason: "text" in said ? "stop" : "tool_calls",
        message:
          "text" in said
            ? { role: "assistant", content: said.text }
            : {
                role: "assistant",
                content: null,
                tool_calls: [
                  {
                    id: "call_1",
                    type: "function",
                    function: { name: said.tool, arguments: JSON.stringify(said.input) },
                  },
                ],
              },
      },
    ],
    usage: { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 },
  }),
  instructions: ({ body }) =>
    textOf(body.messages.find((message: { role: string }) => message.role === "system")?.content),
  turns: ({ body }) =>
    body.messages
      .filter((message: { role: string }) => message.role !== "system")
      .map((message: { role: string; content: unknown }) => ({
        role: message.role,
        text: textOf(message.content),
      })),
  toolNames: ({ body }) =>
    (body.tools ?? []).map((tool: { function: { name: string } }) => tool.function.name),
  thinking: ({ body }) => body.reasoning_effort,
};

const openai: Vendor = {
  type: "openai",
  base: "/v1",
  path: "/v1/responses",
  key: bearer,
  answer: (said, model) => ({
    id: "resp_1",
    object: "response",
    created_at: 1,
    status: "completed",
    model,
    output: [
      "text" in said
        ? {
            type: "message",
            id: "msg_1",
            role: "assistant",
            status: "completed",
            content: [{ type: "output_text", text: said.text, annotations: [] }],
          }
        : {
            type: "function_call",
            id: "fc_1",
            call_id: "call_1",
            name: said.tool,
            arguments: JSON.stringify(said.input),
            status: "completed",
          },
    ],
    usage: {
      input_tokens: 11,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 3,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 14,
    },
    error: null,
    incomplete_details: null,
  }),
  instructions: ({ body }) =>
    textOf(body.instructions) +
    textOf(
      body.input.find(
        (item: { role?: string }) => item.role === "system" || item.role === "developer",
      )?.content,
    ),
  turns: ({ body }) =>
    body.input
      .filter((item: { role?: string }) => item.role !== "system" && item.role !== "developer")
      .map((item: { role?: string; type?: string; content?: unknown; output?: unknown }) => ({
        role: item.role ?? item.type ?? "",
        text: textOf(item.content ?? item.output),
      })),
  toolNames: ({ body }) => (body.tools ?? []).map((tool: { name: string }) => tool.name),
  thinking: ({ body }) => body.reasoning?.effort,
};

const anthropic: Vendor = {
  type: "anthropic",
  base: "/v1",
  path: "/v1/messages",
  key: (secret) => ["x-api-key", secret],
  answer: (said, model) => ({
    id: "msg_1",
    type: "message",
    role: "assistant",
    model,
    content: [
      "text" in said
        ? { type: "text", text: said.text }
        : { type: "tool_use", id: "toolu_1", name: said.tool, input: said.input },
    ],
    stop_reason: "text" in said ? "end_turn" : "tool_use",
    stop_sequence: null,
    usage: { input_tokens: 11, output_tokens: 3 },
  }),
  instructions: ({ body }) => textOf(body.system),
  turns: ({ body }) =>
    body.messages.map((message: { role: string; content: unknown }) => ({
      role: message.role,
      text: textOf(message.content),
    })),
  toolNames: ({ body }) => (body.tools ?? []).map((tool: { name: string }) => tool.name),
  thinking: ({ body }) => body.thinking ?? body.output_config,
};

const google: Vendor = {
  type: "google",
  base: "/v1beta",
  path: "/v1beta/models/big:generateContent",
  key: (secret) => ["x-goog-api-key", secret],
  answer: (said, model) => ({
    candidates: [
      {
        content: {
          role: "model",
          parts: [
            "text" in said
              ? { text: said.text }
              : { functionCall: { name: said.tool, args: said.input } },
          ],
        },
        finishReason: "STOP",
        index: 0,
      },
    ],
    usageMetadata: { promptTokenCount: 11, candidatesTokenCount: 3, totalTokenCount: 14 },
    modelVersion: model,
    responseId: "r1",
  }),
  instructions: ({ body }) => textOf(body.systemInstruction),
  turns: ({ body }) =>
    body.contents.map((content: { role: string; parts: unknown }) => ({
      role: content.role,
      text: textOf(content.parts),
    })),
  toolNames: ({ body }) =>
    (body.tools ?? []).flatMap((tool: { functionDeclarations?: { name: string }[] }) =>
      (tool.functionDeclarations ?? []).map((declared) => declared.name),
    ),
  thinking: ({ body }) => body.generationConfig?.thinkingConfig,
};

export const VENDORS: readonly Vendor[] = [compatible, openai, anthropic, google];

export interface ModelServer {
  baseUrl: string;
  origin: string;
  requests: ModelRequest[];
  handler: Handler;
  close(): Promise<void>;
}

/** A vendor's model server on loopback; `handler` decides what it says. */
export async function startVendor(vendor: Vendor): Promise<ModelServer> {
  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request: ModelRequest = {
      path: incoming.url ?? "",
      headers: incoming.headers,
      body: JSON.parse(await readText(incoming)),
    };
    made.requests.push(request);
    const said = await made.handler(request, response);
    if (said === undefined) return;
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(vendor.answer(said, "big")));
  };
  const { url: origin, close } = await listenOn(
    (incoming, response) => void handle(incoming, response).catch(() => response.destroy()),
  );
  const made: ModelServer = {
    origin,
    baseUrl: origin + vendor.base,
    requests: [],
    handler: () => ({ text: "fine" }),
    close,
  };
  return made;
}
