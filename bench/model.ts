/** A model server that answers immediately. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { pause } from "./servers.ts";

const REPLY = JSON.stringify({
  id: "c",
  object: "chat.completion",
  created: 1,
  model: "m",
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "done" } }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

/** Answers that call a tool of the server `tools`, by the number of results that the request has; then words. */
const CALL = {
  role: "assistant",
  content: null,
  tool_calls: [
    { id: "call", type: "function", function: { name: "tools__look", arguments: "{}" } },
  ],
};
const toAnswer = (message: object, reason: string): string =>
  JSON.stringify({
    ...(JSON.parse(REPLY) as object),
    choices: [{ index: 0, finish_reason: reason, message }],
  });

const LOOK = {
  name: "look",
  inputSchema: { type: "object", properties: {} },
  annotations: { readOnlyHint: true },
};

/** Answers a request to the server of tools, whose one tool answers immediately. */
function answerTool(body: string): string | undefined {
  const { id, method, params } = JSON.parse(body) as {
    id?: number;
    method: string;
    params?: { protocolVersion?: string };
  };
  if (id === undefined) return undefined;
  const results: Record<string, object> = {
    initialize: {
      protocolVersion: params?.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: "tools", version: "1" },
    },
    "tools/list": { tools: [LOOK] },
    "tools/call": { content: [{ type: "text", text: "seen" }] },
  };
  return JSON.stringify({ jsonrpc: "2.0", id, result: results[method] ?? {} });
}

/** A model server that runs. */
export interface Model {
  /** Names it as the model of all agents. */
  config: { models: object };
  /** The number of turns that it has ended so far. */
  turns(): number;
  /** Resolves when the model has ended so many turns; fails if it ends none for `IDLE_MS`. */
  reached(turns: number): Promise<void>;
}

const IDLE_MS = 20_000;

async function waitFor(turns: () => number, count: number): Promise<void> {
  for (let known = turns(), since = performance.now(); turns() < count; await pause(5)) {
    if (turns() > known) [known, since] = [turns(), performance.now()];
    if (performance.now() - since > IDLE_MS)
      throw new Error(`${count - turns()} runs do not start or do not end`);
  }
}

/** A model server in this process that answers immediately, after `steps` calls of a tool in each turn. */
export async function withModel<T>(work: (model: Model) => Promise<T>, steps = 0): Promise<T> {
  let turns = 0;
  const answer = (url: string, body: string): string | undefined => {
    if (url.startsWith("/mcp")) return answerTool(body);
    if (steps > 0 && body.split('"role":"tool"').length <= steps)
      return toAnswer(CALL, "tool_calls");
    turns++;
    return REPLY;
  };
  const model = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      const text = request.method === "POST" ? answer(request.url ?? "", body) : undefined;
      response.writeHead(text === undefined ? (request.method === "POST" ? 202 : 405) : 200, {
        "content-type": "application/json",
      });
      response.end(text);
    });
  });
  await new Promise<void>((done) => model.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${(model.address() as AddressInfo).port}`;
  const tools = {
    hooks: { tools: ["tools.*"] },
    mcp: { servers: { tools: { url: `${url}/mcp` } } },
  };
  const config = {
    models: { providers: { local: { type: "openai-compatible", baseUrl: `${url}/v1` } } },
    agents: {
      defaults: { model: "local/m", maxConcurrent: 16, heartbeat: { every: 0 } },
      ...(steps > 0 && { list: [{ id: "main", tools: ["tools.*"] }] }),
    },
    ...(steps > 0 && tools),
  };
  try {
    return await work({
      config,
      turns: () => turns,
      reached: (count) => waitFor(() => turns, count),
    });
  } finally {
    model.close();
  }
}
