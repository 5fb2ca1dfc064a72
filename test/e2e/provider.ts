import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { systemClock, type Clock } from "../../src/core/clock.ts";

export interface ChatRequest {
  headers: IncomingMessage["headers"];
  body: {
    model: string;
    messages: { role: string; content: unknown }[];
    stream?: boolean;
    tools?: { function: { name: string } }[];
    reasoning_effort?: string;
  };
}

/** A model server that speaks the chat-completions wire format on loopback; `answer` decides what it says. */
export interface Provider {
  url: string;
  requests: ChatRequest[];
  /** All that a request said, joined. */
  text(request: ChatRequest): string;
  answer: (
    request: ChatRequest,
    response: ServerResponse,
  ) => string | undefined | Promise<string | undefined>;
  close(): Promise<void>;
}

export async function createProvider(): Promise<Provider> {
  const provider: Provider = {
    url: "",
    requests: [],
    text: (request) =>
      request.body.messages
        .map((message) =>
          typeof message.content === "string" ? message.content : JSON.stringify(message.content),
        )
        .join("\n"),
    answer: () => "fine",
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const request: ChatRequest = {
      headers: incoming.headers,
      body: JSON.parse(Buffer.concat(chunks).toString()) as ChatRequest["body"],
    };
    provider.requests.push(request);
    const content = await provider.answer(request, response);
    if (content === undefined) return;
    response.setHeader("content-type", "application/json");
    response.end(
      JSON.stringify({
        id: "c1",
        object: "chat.completion",
        created: 1,
        model: request.body.model,
        choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content } }],
        usage: { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 },
      }),
    );
  };
  const server: Server = createServer((incoming, response) => {
    handle(incoming, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  provider.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return provider;
}

/** The config that makes it the model of every agent. */
export const modelConfig = (
  provider: Pick<Provider, "url"> & { apiKey?: string },
  more: object = {},
): object => ({
  models: {
    providers: {
      local: {
        type: "openai-compatible",
        baseUrl: provider.url,
        apiKey: provider.apiKey ?? "canary-api-key-0123456789",
      },
    },
    aliases: { quick: "local/small" },
  },
  agents: { defaults: { model: "local/big", heartbeat: { every: 0 } }, ...more },
});

/** A clock by which model calls do not wait between tries; `waits` has how many milliseconds each wait was to be. */
export function createShortWaits(): { clock: Clock; waits: number[] } {
  const waits: number[] = [];
  const sleep: Clock["sleep"] = (ms, signal) => {
    if (!new Error().stack?.includes("model-call.ts")) return systemClock.sleep(ms, signal);
    waits.push(ms);
    return systemClock.sleep(Math.min(ms, 5), signal);
  };
  return { clock: { ...systemClock, sleep }, waits };
}
