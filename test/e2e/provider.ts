import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { systemClock, type Clock } from "../../src/core/clock.ts";
import { startModel, type Says } from "../platform/model.ts";

export interface ChatRequest {
  headers: IncomingHttpHeaders;
  body: {
    model: string;
    messages: { role: string; content: unknown }[];
    stream?: boolean;
    tools?: { function: { name: string } }[];
    reasoning_effort?: string;
  };
}

type Answered = string | Says | undefined;

/** A model server as `startModel` starts one, whose `answer` may be a text alone. */
export interface Provider {
  url: string;
  requests: ChatRequest[];
  /** All that a request said, joined. */
  text(request: ChatRequest): string;
  answer: (request: ChatRequest, response: ServerResponse) => Answered | Promise<Answered>;
  close(): Promise<void>;
}

export async function createProvider(): Promise<Provider> {
  const model = await startModel();
  const provider: Provider = {
    url: model.url,
    requests: [],
    text: (request) =>
      request.body.messages
        .map((message) =>
          typeof message.content === "string" ? message.content : JSON.stringify(message.content),
        )
        .join("\n"),
    answer: () => "fine",
    close: () => model.close(),
  };
  model.says = async ({ headers, body, response }) => {
    const request: ChatRequest = { headers, body };
    provider.requests.push(request);
    const said = await provider.answer(request, response);
    return typeof said === "string" ? { text: [said] } : said;
  };
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
