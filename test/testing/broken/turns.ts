import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { z } from "zod";
import type { ModelProvider, ModelSettings, Part, Routes, Tool } from "../../../src/plugin/api.ts";
import {
  testContext,
  testProvider,
  testRoutes,
  testTools,
  type ToolSample,
} from "../../../src/testing/index.ts";

const input = z.object({ id: z.string().describe("The id.") });
const sample: ToolSample = { input: { id: "1" }, invalid: [{}] };
type Change = Partial<Tool<typeof input>>;
const tools: [string, (state: { changes: number; failing: boolean }) => Change][] = [
  ["have legal names", () => ({ name: "look up!" })],
  ["have an input that JSON Schema can describe", () => ({ input: z.object({ id: z.string() }) })],
  [
    "refuse wrong input by their schema",
    () => ({ input: z.looseObject({ id: z.string().optional().describe("The id.") }) as never }),
  ],
  [
    "give text, or a value that JSON can hold",
    () => ({ execute: async () => new Map([["a", 1]]) }),
  ],
  [
    "end soon if the turn is cancelled",
    () => ({
      execute: (_, { signal }) => (signal.aborted ? new Promise(() => undefined) : "found"),
    }),
  ],
  [
    "throw an error that a model can read",
    (state) => ({
      execute: async () => {
        if (state.failing) throw new Error("secret-token was refused");
        return "found";
      },
    }),
  ],
  [
    "change nothing if they are read-only",
    (state) => ({ readOnly: true, execute: async () => String(++state.changes) }),
  ],
  [
    "have the effect of one call for several",
    (state) => ({ idempotent: true, execute: async () => String(++state.changes) }),
  ],
];
for (const [expected, flaw] of tools)
  testTools(expected, () => {
    const state = { changes: 0, failing: false };
    const execute = async (): Promise<string> => {
      if (state.failing) throw new Error("not reachable");
      return "found";
    };
    const tool = { name: "find", description: "Finds.", input, execute, ...flaw(state) };
    return {
      tools: [tool],
      samples: { [tool.name]: sample },
      changes: () => state.changes,
      fail: () => void (state.failing = true),
      secrets: ["secret-token"],
    };
  });

const part = (change: Partial<Part> = {}): Part => ({
  text: "shipped on Monday",
  from: "outside",
  label: "record",
  ...change,
});
let asked = 0;
for (const [expected, provider] of [
  ["adds what it knows about a question", async () => [part({ from: "operator" })]],
  ["adds what it knows about a question", async () => [part({ label: "two\nlines" })]],
  [
    "gives the same to turns that ask side by side",
    async () => [part({ text: `shipped on Monday ${asked++}` })],
  ],
  [
    "survives the question",
    async ({ question }: { question: string }) =>
      question.trim() === "" ? [part({ text: "" })] : [part()],
  ],
  [
    "ends soon if the turn is cancelled",
    ({ signal }: { signal: AbortSignal }) =>
      signal.aborted ? new Promise<Part[]>(() => undefined) : [part()],
  ],
] as const)
  testContext(expected, () => ({
    provider,
    question: "Where is it?",
    text: ["shipped"],
    outside: ["shipped"],
  }));

const app = (change: (path: string, request: Request) => Response | undefined): Routes => ({
  auth: "none",
  fetch(request) {
    const path = new URL(request.url).pathname.slice("/plugins/acme".length);
    const changed = change(path, request);
    if (changed) return changed;
    if (path !== "/a") return new Response("no", { status: 404 });
    return new Response("hello", { status: request.headers.has("authorization") ? 200 : 401 });
  },
});
const headers = { authorization: "x" };
const say = (text: string, status = 200): Response => new Response(text, { status });
for (const [expected, routes] of [
  ["say who may call", { ...app(() => undefined), auth: "everybody" as never }],
  ["answer their requests", app((path) => (path === "/a" ? say("secret-token") : undefined))],
  ["refuse whom they must not trust", app((path) => (path === "/a" ? say("hello") : undefined))],
  ["answer 4xx to a path and a body", app((path) => (path === "/a" ? undefined : say("hello")))],
  [
    "answer 4xx to a path and a body",
    app((_, { method }) => (method === "POST" ? say("oops", 500) : undefined)),
  ],
] as const)
  testRoutes(expected, () => ({
    id: "acme",
    routes,
    samples: [{ name: "a", path: "/a", headers, expect: { status: 200, text: ["hello"] } }],
    forbidden: [{ name: "a", path: "/a" }],
    secrets: ["secret-token"],
  }));

const make = ({ name, baseUrl = "", apiKey = "", headers }: ModelSettings, fetcher: typeof fetch) =>
  createOpenAICompatible({ name, baseURL: baseUrl, apiKey, headers, fetch: fetcher });
const providers: [string, Partial<ModelProvider>][] = [
  ["accepts right settings and objects to wrong ones", { check: () => [] }],
  [
    "makes a model without asking the vendor",
    {
      create: async (settings, { fetch }) => {
        await fetch(settings.baseUrl ?? "").catch(() => undefined);
        return make(settings, fetch);
      },
    },
  ],
  ["answers a question", { create: async (settings) => make(settings, globalThis.fetch) }],
  [
    "streams an answer",
    { create: async (settings, { fetch }) => make({ ...settings, headers: {} }, fetch) },
  ],
  [
    "fails if the vendor answers 401",
    {
      create: async (settings, { fetch }) =>
        make(settings, async (...request) => {
          const answer = await fetch(...request);
          return answer.ok
            ? answer
            : Response.json(
                { error: { message: `wrong key ${settings.apiKey}` } },
                { status: answer.status },
              );
        }),
    },
  ],
];
for (const [expected, change] of providers)
  testProvider(expected, async () => {
    const requests: { headers: Record<string, unknown>; body: string }[] = [];
    let status = 200;
    const server = createServer((request, response) => {
      let body = "";
      request.on("data", (chunk) => (body += String(chunk)));
      request.on("end", () => {
        requests.push({ headers: request.headers, body });
        if (status !== 200)
          return response
            .writeHead(status, { "content-type": "application/json" })
            .end('{"error":{"message":"no"}}');
        if (!body.includes('"stream":true'))
          return response
            .writeHead(200, { "content-type": "application/json" })
            .end(
              '{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Rain."}}]}',
            );
        return response
          .writeHead(200, { "content-type": "text/event-stream" })
          .end(
            'data: {"choices":[{"index":0,"delta":{"content":"Rain."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
          );
      });
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const settings = {
      name: "acme",
      baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      apiKey: "secret-key-0123",
      headers: {},
    };
    const { baseUrl: _, ...wrong } = settings;
    const provider: ModelProvider = {
      type: "acme",
      check: ({ baseUrl }) =>
        baseUrl === undefined ? [{ field: "baseUrl", message: "is required" }] : [],
      create: async (given, { fetch }) => make(given, fetch),
      ...change,
    };
    return {
      provider,
      settings,
      wrong,
      model: "big",
      reply: "Rain.",
      requests: () => requests,
      fail: (next) => void (status = next),
      close: () => void server.close(),
    };
  });
