import type { IncomingMessage, ServerResponse } from "node:http";
import { listenOn, readText } from "../channels/wire.ts";

/** The number of e-mails that the turn of `createMailModel` sends. */
export const MAILS = 3;
export const ALL_SENT = "All three are sent.";

/** A request to the model, or an e-mail, in the world outside of Rouse. */
export interface Arrival {
  kind: "model" | "mail";
  /** From 0, of its kind since the last `reset`. */
  index: number;
}

/** Called when something arrives, and after it was answered. What it returns in time holds the answer back. */
export type Watcher = (arrival: Arrival, moment: "before" | "after") => void | Promise<void>;

/** The world outside of Rouse: a model that has three e-mails sent, one after the other, and what sends and counts them. */
export interface MailWorld {
  /** `baseUrl` of an OpenAI-compatible provider. */
  modelUrl: string;
  /** An MCP server whose tool `send` has no annotations. */
  mcpUrl: string;
  /** Takes e-mails of a plugin's tool. */
  mailUrl: string;
  /** Each e-mail that was sent: its number, and the idempotency key that it came with. */
  sent: { n: number; key: string; run: string }[];
  watch: Watcher;
  /** Fails a request to the model with this status; undefined lets it through. */
  failModel: (index: number, step: number) => number | undefined;
  /** Called instead of the answer of the model, if it returns one. */
  says?: (step: number, body: ModelBody) => object | undefined;
  requests: ModelBody[];
  reset(): void;
  close(): Promise<void>;
}

export interface ModelBody {
  messages: { role: string; content: unknown; tool_calls?: unknown[] }[];
  tools?: { function: { name: string } }[];
}

const sendJson = (response: ServerResponse, body: object, status = 200): Promise<void> =>
  new Promise((done) => {
    response.writeHead(status, {
      "content-type": "application/json",
      ...(status >= 400 ? { "retry-after": "0" } : {}),
    });
    response.end(JSON.stringify(body), () => done());
  });

const toolCalls = (calls: { name: string; arguments: object }[]): object => ({
  role: "assistant",
  content: null,
  tool_calls: calls.map((call, at) => ({
    id: `call_${at}`,
    type: "function",
    function: { name: call.name, arguments: JSON.stringify(call.arguments) },
  })),
});
export const callOf = (name: string, input: object): object =>
  toolCalls([{ name, arguments: input }]);
export const callsOf = (calls: [name: string, input: object][]): object =>
  toolCalls(calls.map(([name, input]) => ({ name, arguments: input })));

const TOOL = {
  name: "send",
  description: "Sends the e-mail with this number.",
  inputSchema: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
};

interface Rpc {
  id?: number;
  method: string;
  params?: {
    name?: string;
    arguments?: { n: number };
    protocolVersion?: string;
    _meta?: { idempotencyKey?: string };
  };
}

/** Starts it on loopback. */
export async function createMailWorld(): Promise<MailWorld> {
  let models = 0;
  let mails = 0;
  const world: MailWorld = {
    modelUrl: "",
    mcpUrl: "",
    mailUrl: "",
    sent: [],
    requests: [],
    watch: () => undefined,
    failModel: () => undefined,
    reset() {
      models = 0;
      mails = 0;
      world.sent = [];
      world.requests = [];
      world.watch = () => undefined;
      world.failModel = () => undefined;
    },
    close: async () => undefined,
  };

  const model = async (body: ModelBody, response: ServerResponse): Promise<void> => {
    const index = models++;
    world.requests.push(body);
    const step = body.messages.filter(({ role }) => role === "tool").length;
    await world.watch({ kind: "model", index }, "before");
    const status = world.failModel(index, step);
    if (status !== undefined)
      return sendJson(response, { error: { message: "not now", type: "server_error" } }, status);
    const tool = body.tools?.find(({ function: { name } }) => name.endsWith("__send"))?.function
      .name;
    const usual =
      step < MAILS && tool !== undefined
        ? callOf(tool, { n: step + 1 })
        : { role: "assistant", content: ALL_SENT };
    const message = world.says?.(step, body) ?? usual;
    await sendJson(response, {
      id: "c1",
      object: "chat.completion",
      created: 1,
      model: "m",
      choices: [
        { index: 0, finish_reason: "tool_calls" in message ? "tool_calls" : "stop", message },
      ],
      usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 },
    });
    await world.watch({ kind: "model", index }, "after");
  };

  const mail = async (
    n: number,
    key: string,
    response: ServerResponse,
    answer: object,
  ): Promise<void> => {
    const index = mails++;
    world.sent.push({ n, key, run: key.split(".")[0] ?? "" });
    await world.watch({ kind: "mail", index }, "before");
    await sendJson(response, answer);
    await world.watch({ kind: "mail", index }, "after");
  };

  const rpc = async ({ id, method, params }: Rpc, response: ServerResponse): Promise<void> => {
    const result = (value: object): Promise<void> =>
      sendJson(response, { jsonrpc: "2.0", id, result: value });
    if (id === undefined) return void response.writeHead(202).end();
    if (method === "initialize") {
      const serverInfo = { name: "mail", version: "1.0.0" };
      return result({
        protocolVersion: params?.protocolVersion ?? "2025-06-18",
        capabilities: { tools: {} },
        serverInfo,
      });
    }
    if (method === "tools/list") return result({ tools: [TOOL] });
    if (method !== "tools/call") return result({});
    const n = params?.arguments?.n ?? 0;
    const answer = {
      jsonrpc: "2.0",
      id,
      result: { content: [{ type: "text", text: `e-mail ${n} is sent` }] },
    };
    return mail(n, params?._meta?.idempotencyKey ?? "", response, answer);
  };

  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const text = await readText(incoming);
    const body: unknown = text === "" ? undefined : JSON.parse(text);
    const url = incoming.url ?? "";
    if (url.startsWith("/v1/")) return model(body as ModelBody, response);
    if (incoming.method !== "POST") return void response.writeHead(405).end();
    if (url.startsWith("/mcp")) return rpc(body as Rpc, response);
    const { n, key } = body as { n: number; key: string };
    return mail(n, key, response, { text: `e-mail ${n} is sent` });
  };
  const { url, close } = await listenOn(
    (incoming, response) => void handle(incoming, response).catch(() => response.destroy()),
  );
  const urls = { modelUrl: `${url}/v1`, mcpUrl: `${url}/mcp`, mailUrl: `${url}/mail` };
  return Object.assign(world, urls, { close });
}

/** The source of a plugin whose tool `send` posts an e-mail with the id of its call as its key. */
export const mailPlugin = (id: string, mailUrl: string, hints: object = {}): string => `
import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "${id}",
  tools: () => [{
    name: "send",
    description: "Sends the e-mail with this number.",
    input: z.object({ n: z.number() }),
    ...${JSON.stringify(hints)},
    async execute({ n }, { callId, signal }) {
      const answer = await globalThis.fetch("${mailUrl}", { method: "POST", body: JSON.stringify({ n, key: callId }), signal });
      return (await answer.json()).text;
    },
  }],
});
`;

/** The config of a gateway whose agents each have one way to send: \`mcp\` by the MCP server, \`post\` and \`safe\` by plugins. */
export const mailConfig = (world: MailWorld, more: object = {}): object => ({
  hooks: { tools: ["mcp.*", "post.*", "safe.*"] },
  plugins: { settings: { post: {}, safe: {} } },
  mcp: { servers: { mcp: { url: world.mcpUrl } } },
  models: {
    providers: {
      local: { type: "openai-compatible", baseUrl: world.modelUrl, apiKey: "k-0123456789" },
    },
  },
  agents: {
    defaults: { model: "local/m", heartbeat: { every: 0 } },
    list: ["mcp", "post", "safe"].map((id) => ({ id, tools: [`${id}.*`] })),
  },
  ...more,
});

export const mailPlugins = (world: MailWorld): Record<string, string> => ({
  "plugins/post.ts": mailPlugin("post", world.mailUrl),
  "plugins/safe.ts": mailPlugin("safe", world.mailUrl, { idempotent: true }),
});

/** The numbers of the e-mails that were sent, and how often each was: by its key, if the receiver knows a repeat by it. */
export function countMails(sent: MailWorld["sent"], isIdempotent = false): Record<number, number> {
  const counted = isIdempotent ? [...new Map(sent.map((one) => [one.key, one])).values()] : sent;
  const counts: Record<number, number> = {};
  for (const { n } of counted) counts[n] = (counts[n] ?? 0) + 1;
  return counts;
}
