import anthropic from "../../plugins/anthropic/index.ts";
import google from "../../plugins/google/index.ts";
import openaiCompatible from "../../plugins/openai-compatible/index.ts";
import openai from "../../plugins/openai/index.ts";
import { testProvider } from "../../src/testing/index.ts";
import { startVendor, VENDORS, type Handler, type Vendor } from "./vendors.ts";

const KEY = "canary-provider-key-0123456789";
const REPLY = "Rain at last.";

type Event = { type?: string; [member: string]: unknown };

/** A streamed answer of each vendor, cut in two. */
const STREAMS: Record<Vendor["type"], (texts: readonly string[]) => Event[]> = {
  "openai-compatible": (texts) => [
    ...texts.map((content) => ({
      id: "c1",
      choices: [{ index: 0, delta: { role: "assistant", content } }],
    })),
    { id: "c1", choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
  ],
  openai: (texts) => [
    { type: "response.created", response: { id: "resp_1", created_at: 1, model: "big" } },
    { type: "response.output_item.added", output_index: 0, item: { type: "message", id: "msg_1" } },
    ...texts.map((delta) => ({
      type: "response.output_text.delta",
      item_id: "msg_1",
      output_index: 0,
      content_index: 0,
      delta,
    })),
    { type: "response.output_item.done", output_index: 0, item: { type: "message", id: "msg_1" } },
    { type: "response.completed", response: { usage: { input_tokens: 11, output_tokens: 3 } } },
  ],
  anthropic: (texts) => [
    {
      type: "message_start",
      message: {
        id: "msg_1",
        model: "big",
        role: "assistant",
        content: [],
        usage: { input_tokens: 11, output_tokens: 0 },
      },
    },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    ...texts.map((text) => ({
      type: "content_block_delta",
      index: 0,
      delta: { type: "text_delta", text },
    })),
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 3 } },
    { type: "message_stop" },
  ],
  google: (texts) =>
    texts.map((text) => ({
      candidates: [
        { content: { role: "model", parts: [{ text }] }, finishReason: "STOP", index: 0 },
      ],
    })),
};

const createHandler =
  (vendor: Vendor): Handler =>
  ({ path, body }, response) => {
    if (body.stream !== true && !path.includes("streamGenerateContent")) return { text: REPLY };
    response.setHeader("content-type", "text/event-stream");
    for (const event of STREAMS[vendor.type]([REPLY.slice(0, 5), REPLY.slice(5)]))
      response.write(
        `${event.type === undefined ? "" : `event: ${event.type}\n`}data: ${JSON.stringify(event)}\n\n`,
      );
    response.end();
    return undefined;
  };

for (const provider of [anthropic, google, openai, openaiCompatible].flatMap(
  ({ providers }) => providers,
))
  testProvider(provider.type, async () => {
    const vendor = VENDORS.find(({ type }) => type === provider.type);
    if (!vendor) throw new Error(`no vendor speaks ${provider.type}`);
    const server = await startVendor(vendor);
    server.handler = createHandler(vendor);
    const settings = { name: "local", baseUrl: server.baseUrl, apiKey: KEY, headers: {} };
    const { baseUrl: _, ...wrong } = settings;
    return {
      provider,
      settings,
      ...(provider.check && { wrong }),
      model: "big",
      reply: REPLY,
      requests: () =>
        server.requests.map(({ headers, body }) => ({ headers, body: JSON.stringify(body) })),
      fail(status) {
        server.handler = (_request, response) =>
          void response.writeHead(status).end('{"error":{"message":"no"}}');
      },
      close: () => server.close(),
    };
  });
