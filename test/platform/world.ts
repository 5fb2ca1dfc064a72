import { join } from "node:path";
import { createWorld, type World, type WorldOptions } from "../e2e/world.ts";
import { expectDocumented } from "../http/conformance.ts";
import { startModel, type Model } from "./model.ts";

export const KEY = "rk_test-key-0123456789-0123456789";
export const OTHER_KEY = "rk_other-key-0123456789-0123456789";

export interface PlatformWorld extends World {
  model: Model;
  /** Asks over a real socket. */
  ask(path: string, init?: RequestInit & { key?: string }): Promise<Response>;
  /** Posts JSON to a route and reads the whole answer, which the published document must have. */
  call(path: string, body: unknown, headers?: Record<string, string>): Promise<Called>;
  chat(body?: object, headers?: Record<string, string>): Promise<Called>;
  respond(body?: object, headers?: Record<string, string>): Promise<Called>;
  /** Runs an agent by a hook, and waits for the end of the run. */
  hookRun(body?: object): Promise<Called["body"]>;
  close(): Promise<void>;
}

export interface Called {
  status: number;
  headers: Headers;
  text: string;
  /** The words of the answer, whole or streamed. */
  content: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
  body: any;
}

interface Options extends Omit<WorldOptions, "config"> {
  config?: Record<string, unknown>;
  platform?: object;
  /** Providers besides that of the agents' model. */
  providers?: object;
  keys?: readonly object[];
  agents?: readonly object[];
  timeoutSeconds?: number;
  /** The window of the model; default that of an unknown model. */
  contextTokens?: number;
  /** The model takes images. Default: true. */
  images?: boolean;
}

/** The config of a server of tools: `town.weather` reads, `town.erase` changes something. */
export const MCP = {
  servers: {
    town: {
      command: process.execPath,
      args: [join(import.meta.dirname, "../agent/mcp-server.mjs")],
      env: { TOWN_KEY: "key" },
    },
  },
};

export const USER = [{ role: "user", content: "Say it." }];

/** The usual `fetch`, which holds every answer in JSON to the published document. For clients as well. */
export const documentedFetch: typeof fetch = async (input, init) => {
  const response = await fetch(input, init);
  const { pathname } = new URL(input instanceof Request ? input.url : input);
  const method = init?.method ?? (input instanceof Request ? input.method : "GET");
  const isJson = response.headers.get("content-type")?.includes("json") ?? false;
  if (isJson && method !== "HEAD")
    expectDocumented(method, pathname, response.status, await response.clone().json());
  return response;
};

/** A gateway with an agent `ops` on a model of its own, and a key for it. */
export async function platformWorld(options: Options = {}): Promise<PlatformWorld> {
  const model = await startModel();
  const {
    config = {},
    platform = {},
    keys = [],
    agents,
    providers = {},
    timeoutSeconds = 20,
    contextTokens,
    images,
    ...rest
  } = options;
  const provider = {
    type: "openai-compatible",
    baseUrl: model.url,
    apiKey: "provider-key-0123456789",
    ...(contextTokens !== undefined && { contextTokens }),
    ...(images !== undefined && { images }),
  };
  const world = await createWorld({
    ...rest,
    config: {
      models: { providers: { local: provider, ...providers } },
      agents: {
        defaults: { model: "local/big", heartbeat: { every: 0 }, timeoutSeconds },
        list: agents ?? [
          {
            id: "ops",
            name: "Operations",
            description: "Watches the shop.",
            instructions: "OWN-INSTRUCTIONS",
          },
          { id: "sales" },
        ],
      },
      platform: {
        apiKeys: [{ id: "web", key: KEY }, { id: "other", key: OTHER_KEY }, ...keys],
        ...platform,
      },
      ...config,
    },
  });
  const ask: PlatformWorld["ask"] = (path, { key = KEY, ...init } = {}) =>
    documentedFetch(`${world.url}${path}`, {
      ...init,
      headers: {
        ...(key === "" ? {} : { authorization: `Bearer ${key}` }),
        // The client would say text/plain by itself.
        ...(typeof init.body === "string" ? { "content-type": "application/json" } : {}),
        ...(init.headers as object),
      },
    });
  const call: PlatformWorld["call"] = async (path, body, headers = {}) => {
    const { key = KEY, ...more } = headers;
    const init = { method: "POST", key, headers: { "content-type": "application/json", ...more } };
    const response = await ask(path, {
      ...init,
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
    return readAnswer(response);
  };
  return {
    ...world,
    model,
    ask,
    call,
    chat: (body = {}, headers = {}) =>
      call("/v1/chat/completions", { model: "ops", messages: USER, ...body }, headers),
    respond: (body = {}, headers = {}) =>
      call("/v1/responses", { model: "ops", input: "Hi.", ...body }, headers),
    async hookRun(fields = {}) {
      const { body } = await world.post("/hooks/agent", {
        message: "Do it.",
        deliver: false,
        wakeMode: "next-heartbeat",
        ...fields,
      });
      return world.until(async () => {
        const { run } = (await world.admin(`/admin/v1/runs/${body.runId}`)).body;
        return run.endedAt !== null && run;
      });
    },
    async close() {
      await world.stop();
      await model.close();
    },
  };
}

/** The events of a stream: what stands behind each `data:`, parsed, and the rest as it is. */
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into chunks of every shape
export function eventsOf(text: string): any[] {
  return text
    .split("\n\n")
    .filter((block) => block !== "")
    .map((block) => {
      const data = /^data: (.*)$/m.exec(block)?.[1];
      return data === undefined || data === "[DONE]" ? block : (JSON.parse(data) as unknown);
    });
}

/** Reads the whole of an answer. */
export async function readAnswer(response: Response): Promise<Called> {
  const { status, headers } = response;
  const text = await response.text();
  const isJson = headers.get("content-type")?.includes("json") ?? false;
  const body: unknown = isJson ? JSON.parse(text) : undefined;
  return { status, headers, text, content: readContent(text, body), body };
}

function readContent(text: string, body: Called["body"]): string {
  if (body)
    return body.choices?.[0].message.content ?? body.output?.at(-1)?.content?.[0].text ?? "";
  return eventsOf(text)
    .map(({ choices, type, delta }) =>
      type === "response.output_text.delta" ? delta : (choices?.[0]?.delta.content ?? ""),
    )
    .join("");
}
