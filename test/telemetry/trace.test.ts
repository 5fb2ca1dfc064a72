import type { IncomingHttpHeaders } from "node:http";
import { afterEach, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { definePlugin, type Tool } from "../../src/plugin/api.ts";
import { answerMcp } from "../agent/mcp.ts";
import { startVendor, VENDORS, type Said, type Vendor } from "../agent/vendors.ts";
import { serve } from "../channels/wire.ts";
import { createWorld, type World, type WorldOptions } from "../e2e/world.ts";
import { createCollector, type CollectedSpan, type Collector } from "./collector.ts";

const SENDER = {
  traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
  tracestate: "shop=abc",
};
const COMPATIBLE = VENDORS[0] as Vendor;
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const SECRETS = [
  "canary-body",
  "canary-reply",
  "canary-tool",
  "k-0123456789",
  "canary-collector-key",
  "canary-query",
];

let world: World | undefined;
afterEach(async () => {
  await world?.stop();
  world = undefined;
});

interface Service {
  url: string;
  calls: {
    path: string | undefined;
    headers: IncomingHttpHeaders;
    body: { method?: string; params?: { _meta?: object } } | undefined;
  }[];
}

/** A service over HTTP: an MCP server with one tool, which also answers what tools of plugins ask. */
async function createService(): Promise<Service> {
  const calls: Service["calls"] = [];
  const { url, close } = await serve((call) => {
    const { method, path, headers, body } = call;
    const isRead = method === "GET";
    calls.push({ path, headers, body: isRead ? undefined : body });
    if (isRead) return { status: path === "/crm" ? 200 : 405, text: "canary-tool" };
    return answerMcp(call, [{ name: "weather" }], () => ({
      content: [{ type: "text", text: "canary-tool" }],
      isError: true,
    }));
  });
  onTestFinished(close);
  return { url, calls };
}

const lookup = (service: Service): Tool => ({
  name: "lookup",
  description: "Looks a customer up.",
  input: z.object({ id: z.string() }),
  readOnly: true,
  execute: async (_input, { trace }) =>
    (await fetch(`${service.url}/crm`, { headers: { ...trace } })).text(),
});

const ORDER = {
  id: "order",
  match: { path: "shop" },
  messageTemplate: "New: {{text}}",
  channel: "desk",
  wakeMode: "next-heartbeat",
};

interface Setup extends Pick<WorldOptions, "dir" | "workers"> {
  says?: (call: number) => Said;
  /** The channel's answer, by attempt. */
  sends?: (attempt: number) => "sent" | "retry" | "failed";
  telemetry?: object;
  mappings?: object[];
}

async function start(
  collector: Collector,
  { says = () => ({ text: "canary-reply" }), sends = () => "sent", ...more }: Setup = {},
) {
  const { telemetry = {}, mappings = [ORDER], ...options } = more;
  const service = await createService();
  const model = await startVendor(COMPATIBLE);
  onTestFinished(() => model.close());
  let asked = 0;
  model.handler = () => says(asked++);
  let attempts = 0;
  world = await createWorld({
    ...options,
    logLevel: "trace",
    plugins: [
      definePlugin({ id: "crm", tools: () => [lookup(service)] }),
      definePlugin({
        id: "desk",
        channel: () => ({
          defaultTo: "canary-recipient",
          send: async () => {
            const status = sends(++attempts);
            if (status === "sent") return { status, messageIds: [] };
            return status === "retry"
              ? { status, reason: "busy", afterMs: 0 }
              : { status, reason: "refused" };
          },
        }),
      }),
    ],
    config: {
      telemetry: {
        otlp: { url: collector.url, headers: { "x-key": "canary-collector-key" }, ...telemetry },
      },
      mcp: { servers: { town: { url: `${service.url}/mcp` } } },
      hooks: {
        tools: ["crm.*", "town.*"],
        mappings,
      },
      models: {
        providers: {
          local: { type: COMPATIBLE.type, baseUrl: model.baseUrl, apiKey: "k-0123456789" },
        },
      },
      agents: {
        defaults: { model: "local/big", heartbeat: { every: 0 } },
        list: [{ id: "ops", name: "Operations", tools: ["crm.*", "town.*"] }],
      },
    },
  });
  return { world, service, model };
}

async function ended(
  of: World,
  runId: string,
): Promise<{ status: string; delivery: string | null; traceId: string | null }> {
  return of.until(async () => {
    const { run } = (await of.admin(`/admin/v1/runs/${runId}`)).body;
    return run.endedAt !== null && (run.delivery === null || run.delivery !== "pending") && run;
  });
}

/** Stops the gateway, which exports what is left. */
async function stop(of: World): Promise<void> {
  world = undefined;
  await of.stop();
}

const child = (parent: CollectedSpan): object => ({
  traceId: parent.traceId,
  parentId: parent.spanId,
});

it("a hook is one trace with its sender: intake, mapping, run, model calls, tools and deliveries", async () => {
  const collector = await createCollector();
  const tools: Said[] = [
    { tool: "crm__lookup", input: { id: "canary-tool" } },
    { tool: "town__weather", input: {} },
  ];
  const { world: of, service } = await start(collector, {
    says: (call) => tools[call] ?? { text: "canary-reply" },
    sends: (attempt) => (attempt === 1 ? "retry" : "sent"),
  });
  const { body } = await of.post(
    "/hooks/shop?secret=canary-query",
    { text: "canary-body" },
    SENDER,
  );
  const run = await ended(of, body.runId);
  expect(run).toMatchObject({ status: "succeeded", delivery: "delivered", traceId: TRACE });
  expect((await of.admin(`/admin/v1/events/${body.eventId}`)).body.event.traceId).toBe(TRACE);
  const logged = of.logged.map((line) => JSON.parse(line) as Record<string, unknown>);
  await stop(of);

  const { one } = collector;
  const intake = one("POST /hooks/shop");
  expect(intake).toMatchObject({
    kind: "server",
    traceId: TRACE,
    parentId: "00f067aa0ba902b7",
    state: "shop=abc",
    failed: false,
    service: "rouse",
    attributes: {
      "http.request.method": "POST",
      "http.route": "/hooks/shop",
      "http.response.status_code": 202,
      "url.path": "/hooks/shop",
      "url.scheme": "http",
      "rouse.event.id": body.eventId,
      "rouse.event.outcome": "accepted",
      "rouse.mapping": "order",
    },
  });
  expect(one("evaluate mappings")).toMatchObject({
    ...child(intake),
    kind: "internal",
    attributes: { "rouse.mapping": "order" },
  });
  const invoked = one("invoke_agent Operations");
  expect(invoked).toMatchObject({
    ...child(intake),
    kind: "internal",
    attributes: {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.id": "ops",
      "gen_ai.agent.name": "Operations",
      "gen_ai.conversation.id": expect.stringContaining("ops/hook"),
      "rouse.run.id": body.runId,
      "rouse.run.status": "succeeded",
      "rouse.event.id": body.eventId,
      "rouse.mapping": "order",
    },
  });
  const chats = collector.spans.filter(({ name }) => name === "chat big");
  expect(chats).toHaveLength(3);
  for (const [index, chat] of chats.entries())
    expect(chat).toMatchObject({
      ...child(invoked),
      kind: "client",
      attributes: {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai-compatible",
        "gen_ai.request.model": "big",
        "gen_ai.response.finish_reasons": [index < 2 ? "tool_calls" : "stop"],
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 3,
        "server.address": "127.0.0.1",
        "server.port": expect.any(Number),
      },
    });
  const [looked, asked] = [one("execute_tool crm__lookup"), one("execute_tool town__weather")];
  for (const [tool, name, position] of [
    [looked, "crm__lookup", 0],
    [asked, "town__weather", 1],
  ] as const)
    expect(tool).toMatchObject({
      ...child(invoked),
      kind: "internal",
      attributes: {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": `${body.runId}.${position}.0`,
      },
    });
  expect(looked.failed).toBe(false);
  expect(asked).toMatchObject({ failed: true, attributes: { "error.type": "tool_error" } });
  const sends = collector.spans.filter(({ name }) => name === "deliver desk");
  expect(
    sends.map(({ failed, attributes }) => [
      failed,
      attributes["rouse.delivery.attempt"],
      attributes["error.type"],
    ]),
  ).toEqual([
    [true, 1, "retry"],
    [false, 2, undefined],
  ]);
  for (const send of sends) expect(send).toMatchObject({ ...child(invoked), kind: "client" });

  const parents = (span: CollectedSpan): object => ({
    traceparent: `00-${TRACE}-${span.spanId}-01`,
    tracestate: "shop=abc",
  });
  const crm = service.calls.find(({ path }) => path === "/crm");
  expect(crm?.headers).toMatchObject(parents(looked));
  const call = service.calls.find(({ body: sent }) => sent?.method === "tools/call");
  expect(call?.headers).toMatchObject(parents(asked));
  expect(call?.body?.params?._meta).toMatchObject(parents(asked));

  const ending = logged.find(({ msg }) => msg === "a run ended");
  expect(ending).toMatchObject({ traceId: TRACE, spanId: invoked.spanId });
  expect(logged.find(({ msg }) => msg === "a delivery ended")).toMatchObject({ traceId: TRACE });
  expect(
    logged
      .filter(({ msg }) => msg === "the gateway is ready" || msg === "the gateway has stopped")
      .every(({ traceId }) => traceId === undefined),
  ).toBe(true);

  expect(collector.requests[0]).toMatchObject({
    path: "/v1/traces",
    headers: { "x-key": "canary-collector-key" },
  });
  const exported = collector.requests.map(({ text }) => text).join("\n");
  for (const secret of [...SECRETS, "canary-recipient"])
    expect([secret, exported.includes(secret)]).toEqual([secret, false]);
});

it("traces: a failure is in the span that failed, with a short code, and without a word of the vendor's error", async () => {
  const collector = await createCollector();
  const broken = {
    id: "broken",
    match: { path: "broken" },
    transform: { jsonata: "$number('canary-body')" },
  };
  const { world: of, model: server } = await start(collector, {
    sends: () => "failed",
    mappings: [ORDER, broken],
  });
  let asked = 0;
  server.handler = (_request, response) => {
    if (asked++ > 0) return { text: "canary-reply" };
    response
      .writeHead(500, { "content-type": "application/json", "retry-after": "0" })
      .end('{"error":{"message":"canary-body"}}');
    return undefined;
  };
  const { body } = await of.post("/hooks/shop", { text: "canary-body" }, SENDER);
  await ended(of, body.runId);
  await of.until(
    async () => (await of.admin(`/admin/v1/runs/${body.runId}`)).body.run.delivery === "failed",
  );
  expect(
    (await of.post("/hooks/shop", { text: "x" }, { authorization: "Bearer wrong" })).status,
  ).toBe(401);
  expect((await of.post("/hooks/whatever-scanners-ask", {})).status).toBe(404);
  const unmapped = await of.post("/hooks/broken", { text: "x" });
  expect(unmapped.status).toBe(500);
  const event = unmapped.headers.get("x-request-id");
  const replay = { method: "POST", body: "{}" };
  expect((await of.admin(`/admin/v1/events/${event}/replay`, replay)).status).toBe(200);
  await stop(of);

  const failed = collector.spans
    .filter((span) => span.failed)
    .map(({ name, attributes }) => [name, attributes["error.type"]]);
  expect(failed).toContainEqual(["chat big", "500"]);
  expect(failed).toContainEqual(["deliver desk", "failed"]);
  expect(failed.filter(([name]) => name === "evaluate mappings")).toEqual([
    ["evaluate mappings", "transform_failed"],
    ["evaluate mappings", "transform_failed"],
  ]);
  expect(failed).toContainEqual(["POST /hooks/broken", "500"]);
  expect(collector.one("receive replay")).toMatchObject({
    kind: "internal",
    attributes: { "rouse.event.outcome": "failed" },
  });
  // A caller's mistake is no failure of the gateway.
  const wrong = collector.spans.filter(
    ({ kind, attributes }) =>
      kind === "server" && String(attributes["http.response.status_code"]).startsWith("4"),
  );
  expect(
    wrong.map(({ name, failed: isFailed, attributes }) => [
      name,
      isFailed,
      attributes["http.response.status_code"],
    ]),
  ).toEqual([
    ["POST /hooks/shop", false, 401],
    ["POST /hooks/:path", false, 404],
  ]);
  expect(collector.requests.map(({ text }) => text).join("")).not.toContain("canary-body");
  expect(collector.requests.map(({ text }) => text).join("")).not.toContain(
    "whatever-scanners-ask",
  );
});

it("a run is in the trace of its hook also if another gateway executes it, after that one has stopped", async () => {
  const collector = await createCollector();
  const open = (serviceName: string, more: Setup) =>
    start(collector, { telemetry: { serviceName }, ...more });
  const { world: front } = await open("front", { workers: false });
  const { body } = await front.post("/hooks/shop", { text: "x" }, SENDER);
  await front.gateway.stop();
  const { world: back } = await open("back", { dir: front.dir });
  expect((await ended(back, body.runId)).traceId).toBe(TRACE);
  await stop(back);
  const [intake, run] = [
    collector.one("POST /hooks/shop"),
    collector.one("invoke_agent Operations"),
  ];
  expect(intake).toMatchObject({ service: "front", traceId: TRACE, state: "shop=abc" });
  expect(run).toMatchObject({ ...child(intake), service: "back", state: "shop=abc" });
  expect(collector.one("chat big")).toMatchObject({ ...child(run), service: "back" });
});

it("a chat over the API is in the trace of its caller, also if it streams", async () => {
  const collector = await createCollector();
  const { world: of, model: server } = await start(collector);
  server.handler = ({ body }, response) => {
    if (!body.stream) return { text: "canary-reply" };
    const chunk = (delta: object, finish: string | null): string =>
      `data: ${JSON.stringify({ id: "c9", object: "chat.completion.chunk", created: 1, model: "big", choices: [{ index: 0, delta, finish_reason: finish }], usage: finish ? { prompt_tokens: 11, completion_tokens: 3, total_tokens: 14 } : null })}\n\n`;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(
      `${chunk({ role: "assistant", content: "canary-reply" }, null)}${chunk({}, "stop")}data: [DONE]\n\n`,
    );
    return undefined;
  };
  const key: string = (
    await of.admin("/admin/v1/keys", { method: "POST", body: JSON.stringify({ id: "app" }) })
  ).body.secret;
  const response = await of.gateway.fetch(
    new Request("http://127.0.0.1/v1/chat/completions", {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...SENDER },
      body: JSON.stringify({
        model: "ops",
        stream: true,
        messages: [{ role: "user", content: "canary-body" }],
      }),
    }),
  );
  expect(await response.text()).toContain("canary-reply");
  await of.until(async () =>
    (await of.admin("/admin/v1/runs")).body.runs.every(
      (run: { endedAt: string | null }) => run.endedAt !== null,
    ),
  );
  expect((await of.admin("/admin/v1/runs")).body.runs).toMatchObject([
    { kind: "api", traceId: TRACE },
  ]);
  await stop(of);
  const request = collector.one("POST /v1/chat/completions");
  expect(request).toMatchObject({ kind: "server", traceId: TRACE, parentId: "00f067aa0ba902b7" });
  const invoked = collector.one("invoke_agent Operations");
  expect(invoked).toMatchObject({ ...child(request), attributes: { "rouse.run.kind": "api" } });
  expect(collector.one("chat big")).toMatchObject({
    ...child(invoked),
    failed: false,
    attributes: {
      "gen_ai.request.stream": true,
      "gen_ai.response.finish_reasons": ["stop"],
      "gen_ai.usage.output_tokens": 3,
    },
  });
});

it("several events that are combined are one run: of the first one's trace, linked to all others", async () => {
  const collector = await createCollector();
  const { world: of } = await start(collector, {
    mappings: [{ ...ORDER, deliver: false, coalesce: { key: "all", windowSeconds: 1 } }],
  });
  const other = "00-11111111111111111111111111111111-2222222222222222-01";
  const { body } = await of.post("/hooks/shop", { text: "one" }, SENDER);
  await of.post("/hooks/shop", { text: "two" }, { traceparent: other });
  await ended(of, body.runId);
  await of.post("/hooks/wake", { text: "first", mode: "next-heartbeat" }, SENDER);
  const woken = await of.post(
    "/hooks/wake",
    { text: "second", mode: "now" },
    { traceparent: other },
  );
  expect(woken.status).toBe(200);
  const heartbeat = await of.until(async () =>
    (await of.admin("/admin/v1/runs?kind=heartbeat")).body.runs.find(
      (run: { endedAt: string | null }) => run.endedAt,
    ),
  );
  expect(heartbeat.traceId).toBe(TRACE);
  await stop(of);
  const runs = collector.spans.filter(({ name }) => name === "invoke_agent Operations");
  const second = collector.spans.filter(
    ({ traceId, kind }) => traceId === "1".repeat(32) && kind === "server",
  );
  expect(runs.map(({ traceId, links }) => [traceId, links])).toEqual(
    second.map(({ spanId }) => [TRACE, [`${"1".repeat(32)}-${spanId}`]]),
  );
});

it("a sender's decision not to sample holds, and so does the share of the config", async () => {
  const collector = await createCollector();
  const { world: of, service } = await start(collector, {
    telemetry: { sampleRatio: 0 },
    says: (call) =>
      call === 0 ? { tool: "crm__lookup", input: { id: "c1" } } : { text: "canary-reply" },
  });
  const { body } = await of.post("/hooks/shop", { text: "x" });
  const run = await ended(of, body.runId);
  expect(run.traceId).toMatch(/^[0-9a-f]{32}$/);
  // Requests to other services have its id.
  expect(service.calls.find(({ path }) => path === "/crm")?.headers["traceparent"]).toMatch(
    new RegExp(`^00-${run.traceId}-[0-9a-f]{16}-00$`),
  );
  const sampled = await of.post("/hooks/shop", { text: "x" }, SENDER);
  await ended(of, sampled.body.runId);
  const unsampled = await of.post(
    "/hooks/shop",
    { text: "x" },
    { traceparent: SENDER.traceparent.replace(/01$/, "00") },
  );
  await ended(of, unsampled.body.runId);
  await stop(of);
  expect(
    new Set(collector.spans.map(({ attributes }) => attributes["rouse.event.id"]).filter(Boolean)),
  ).toEqual(new Set([sampled.body.eventId]));
});

it("a collector that is away costs a warning, and neither runs nor the stop", async () => {
  const collector = await createCollector();
  collector.status = 400;
  const { world: of } = await start(collector);
  const { body } = await of.post("/hooks/shop", { text: "x" });
  expect(await ended(of, body.runId)).toMatchObject({ status: "succeeded", delivery: "delivered" });
  await stop(of);
  expect(collector.requests.length).toBeGreaterThan(0);
  expect(of.logged.filter((line) => line.includes("spans could not be exported"))).toHaveLength(1);
});
