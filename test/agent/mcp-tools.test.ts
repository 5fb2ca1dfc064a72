import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createBoundary } from "../../src/agent/boundary.ts";
import type { McpCall, McpServerConfig } from "../../src/agent/tools/mcp-client.ts";
import { McpServer } from "../../src/agent/tools/mcp-server.ts";
import { offerServerTools } from "../../src/agent/tools/mcp-tools.ts";
import { OutcomeUnknownError, type OfferedTool } from "../../src/agent/tools/offered-tool.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import {
  answerMcp,
  createHttpServer,
  createMcpWorld,
  EVERYTHING,
  findChildren,
  findPort,
  LEDGER_SERVER,
  readLedger,
  type Entry,
  type HttpServer,
  type McpWorld,
} from "./mcp.ts";
import type { ModelServer, Said } from "./vendors.ts";

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const createServer = (server: object, more: object = {}): McpServer =>
  new McpServer({
    name: "all",
    server: { callTimeout: 60_000, ...server } as McpServerConfig,
    clock: systemClock,
    log: createLogger("silent"),
    cwd: ".",
    env: process.env,
    fetch,
    ...more,
  });

let world: McpWorld | undefined;
let http: HttpServer | undefined;
let dir: string;
let ledger: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-mcp-"));
  ledger = join(dir, "ledger");
});
afterEach(async () => {
  await world?.stop();
  await http?.kill();
  world = undefined;
  http = undefined;
  rmSync(dir, { recursive: true, force: true });
});

const ledgerServer = (env: object = {}): object => ({
  command: process.execPath,
  args: [LEDGER_SERVER],
  env: { LEDGER: ledger, ...env },
});
const calls = (): Entry[] => readLedger(ledger).filter(({ call }) => call !== undefined);
const done: Said = { text: "Done." };
/** The model's last request, as text. */
const lastSeen = ({ requests }: ModelServer): string => JSON.stringify(requests.at(-1)?.body);

describe("the schema of a tool's input", () => {
  const offer = async (schema: object, call?: (made: McpCall) => void) => {
    const server = { call: async (made: McpCall) => (call?.(made), { parts: [] }) };
    const { tools } = await offerServerTools(
      "all",
      server as never,
      [{ name: "find", inputSchema: schema }],
      () => true,
      createBoundary(),
    );
    return tools[0] as OfferedTool;
  };
  const object = (properties: object, more: object = {}) => ({
    type: "object",
    properties,
    ...more,
  });
  const [a, b] = [{ type: "string" }, { type: "number" }];
  const B = object({ b, kind: { const: "b" } }, { anyOf: [{ $ref: "#/$defs/B" }] });

  it.each<[string, object, object]>([
    ["no type", { properties: { a } }, object({ a })],
    ["another type", { type: ["object", "null"], properties: { a } }, object({ a })],
    ["branches of names", object({ a, b }, { anyOf: [{ required: ["a"] }] }), object({ a, b })],
    [
      "branches of properties",
      {
        oneOf: [object({ a, kind: { const: "a" } }), { $ref: "#/$defs/B" }],
        $defs: { B },
      },
      object({ a, b, kind: { anyOf: [{ const: "a" }, { const: "b" }] } }, { $defs: { B } }),
    ],
    [
      "a list of anything",
      object({ a: { type: "array" } }),
      object({ a: { type: "array", items: {} } }),
    ],
    [
      "a tuple of an older draft",
      object({ a: { type: "array", items: [a, b], additionalItems: false } }),
      object({ a: { type: "array", items: { anyOf: [a, b] } } }),
    ],
    [
      "a limit of an older draft",
      object({ b: { ...b, minimum: 0, exclusiveMinimum: true } }),
      object({ b: { ...b, minimum: 0 } }),
    ],
    ["a name twice", object({ a }, { required: ["a", "a"] }), object({ a }, { required: ["a"] })],
    [
      "required names that no property has",
      object({
        a: object(
          { a },
          { required: ["a", "b"], anyOf: [{ required: ["a"] }, { required: ["b"] }] },
        ),
      }),
      object({
        a: object({ a }, { required: ["a"], anyOf: [{ required: [] }, { required: [] }] }),
      }),
    ],
    [
      "a definition of a generic type",
      object({ a: { $ref: "#/$defs/List%5BA%5D" } }, { $defs: { "List[A]": a } }),
      object({ a: {} }, { $defs: {} }),
    ],
  ])("has a form that vendors take: %s", async (_case, schema, wanted) => {
    expect((await offer(schema)).definition.inputSchema.jsonSchema).toEqual(wanted);
  });

  it("has no `$` and `@` in the names at its top, and the server gets them", async () => {
    const made: unknown[] = [];
    const schema = object({ $top: b, "@id": a, _top: a }, { required: ["$top"] });
    const { definition, execute } = await offer(schema, ({ input }) => void made.push(input));
    expect(definition.inputSchema.jsonSchema).toEqual(
      object({ _top_: b, _id: a, _top: a }, { required: ["_top_"] }),
    );
    const call = { callId: "c1", signal: new AbortController().signal };
    await execute({ _top_: 5, _id: "x", _top: "y", other: 1 }, call);
    expect(made).toEqual([{ $top: 5, "@id": "x", _top: "y", other: 1 }]);
  });
});

interface Served {
  config: object;
  kill(): Promise<void>;
  restart(): Promise<void>;
}

/** The protocol's reference server, by each transport. */
const SERVED: [transport: string, open: () => Promise<Served>][] = [
  [
    "stdio",
    async () => ({
      config: { command: process.execPath, args: [EVERYTHING] },
      async kill() {
        const [pid] = findChildren(EVERYTHING);
        process.kill(pid as number, "SIGKILL");
        while (findChildren(EVERYTHING).includes(pid as number)) await sleep(10);
      },
      // The gateway starts it.
      async restart() {
        while (findChildren(EVERYTHING).length === 0) await sleep(10);
      },
    }),
  ],
  ...(["streamableHttp", "sse"] as const).map((transport): [string, () => Promise<Served>] => [
    transport,
    async () => {
      const made = await createHttpServer(transport);
      http = made;
      await made.start();
      return {
        config: { url: made.url, type: transport === "sse" ? "sse" : "http", headers: {} },
        kill: made.kill,
        restart: made.start,
      };
    },
  ]),
];

const echo = (message: string): Said => ({ tool: "all__echo", input: { message } });

describe.each(SERVED)("the reference server over %s", (_transport, open) => {
  it("is used again after it was killed between two calls, and gets a call again during which it was killed", async () => {
    const served = await open();
    const restart = () => served.kill().then(served.restart);
    world = await createMcpWorld({ all: served.config }, async (call) => {
      if (call === 0) return echo("first");
      if (call === 1) {
        await restart();
        return echo("second");
      }
      if (call > 2) return done;
      setTimeout(() => void restart(), 700);
      return { tool: "all__trigger-long-running-operation", input: { duration: 2, steps: 2 } };
    });
    expect(await world.run()).toMatchObject({ status: "succeeded", warnings: [] });
    for (const seen of ["Echo: first", "Echo: second", "Long running operation completed"])
      expect(lastSeen(world.model)).toContain(seen);
  });
});

describe("a server", () => {
  const serve =
    (tools: Parameters<typeof answerMcp>[1], result: object, write = JSON.stringify) =>
    async (_url: unknown, { method = "GET", body }: { method?: string; body?: string } = {}) => {
      const sent = JSON.parse(body ?? "{}") as { method?: string };
      const answer = answerMcp({ method, body: sent }, tools, () => result);
      const { status, json } = answer as { status: number; json?: object };
      const text = json && (sent.method === "tools/call" ? write(json) : JSON.stringify(json));
      return new Response(text ?? null, {
        status,
        headers: { "content-type": "application/json" },
      });
    };
  const config = { url: "http://127.0.0.1/mcp", type: "http" };

  it("whose answers have fields of other types offers all its tools, and its results are read", async () => {
    const tools = [
      { name: "plain", description: null, annotations: null, outputSchema: {} },
      { name: "bare", inputSchema: null },
    ];
    const content = [{ type: "text", text: "fine", annotations: null }];
    const result = { content, structuredContent: null, isError: null };
    const server = createServer(config, { fetch: serve(tools, result) });
    const signal = AbortSignal.timeout(60_000);
    expect((await server.tools(signal)).map(({ name }) => name)).toEqual(["plain", "bare"]);
    const call = { tool: "plain", input: {}, callId: "c1", signal };
    expect(await server.call(call)).toEqual({ parts: [{ type: "text", text: "fine" }] });
    await server.close();
  });

  const initialized = { protocolVersion: "2025-06-18", capabilities: { tools: {} } };
  const answerTo = (method: string, change: (json: { result: object }) => unknown) => {
    const tools = [{ name: "plain" }];
    const write = serve(tools, { content: "fine" });
    return async (...request: Parameters<typeof write>) => {
      const response = await write(...request);
      const { method: asked } = JSON.parse(request[1]?.body ?? "{}") as { method?: string };
      if (asked !== method) return response;
      const changed = change((await response.json()) as { result: object });
      if (changed instanceof Response) return changed;
      return Response.json(changed);
    };
  };

  it.each<[string, object]>([
    ["no version", { ...initialized, serverInfo: { name: "town" } }],
    ["no name and no version", initialized],
    ["a version that is a number", { ...initialized, serverInfo: { name: "town", version: 2 } }],
    [
      "null where the protocol has nothing",
      { ...initialized, serverInfo: null, instructions: null },
    ],
    [
      "null as a capability",
      { ...initialized, capabilities: { tools: { listChanged: null }, experimental: null } },
    ],
  ])("that introduces itself with %s offers its tools", async (_what, result) => {
    const fetcher = answerTo("initialize", (json) => ({ ...json, result }));
    const server = createServer(config, { fetch: fetcher });
    const tools = await server.tools(AbortSignal.timeout(60_000));
    expect(tools.map(({ name }) => name)).toEqual(["plain"]);
    await server.close();
  });

  it.each(["initialize", "tools/list", "tools/call"])(
    "that writes `error: null` beside its result is read at %s",
    async (method) => {
      const fetcher = answerTo(method, (json) => [{ ...json, error: null }]);
      const server = createServer(config, { fetch: fetcher });
      const call = { tool: "plain", input: {}, callId: "c1", signal: AbortSignal.timeout(60_000) };
      expect(await server.call(call)).toEqual({ parts: [{ type: "text", text: "fine" }] });
      await server.close();
    },
  );

  it.each([
    ['{"jsonrpc":"2.0",', "application/json", "its answer is not valid JSON"],
    ["", "application/json", "its answer is not valid JSON"],
    ["<html>", "text/html", "its answer is neither JSON nor an event stream: check the address"],
  ])("that answers %j as %s says why it failed", async (text, type, error) => {
    const fetcher = answerTo(
      "initialize",
      () => new Response(text, { headers: { "content-type": type } }),
    );
    const server = createServer(config, { fetch: fetcher });
    await expect(server.tools(AbortSignal.timeout(60_000))).rejects.toThrow();
    expect(server.state).toMatchObject({ name: "all", state: "failing", error });
    await server.close();
  });

  it.each([400, 404])(
    "that answers %i to a request for its event stream keeps its session",
    async (status) => {
      const write = serve([{ name: "plain" }], { content: "fine" });
      let sessions = 0;
      const fetcher = async (...request: Parameters<typeof write>) => {
        const { method = "GET", body = "" } = request[1] ?? {};
        if (method === "GET") return sleep(50).then(() => new Response(null, { status }));
        const response = await write(...request);
        if (body.includes('"initialize"')) response.headers.set("mcp-session-id", `s${sessions++}`);
        return response;
      };
      const server = createServer(config, { fetch: fetcher });
      const signal = AbortSignal.timeout(60_000);
      for (const callId of ["c1", "c2"]) {
        await server.call({ tool: "plain", input: {}, callId, signal });
        await sleep(700);
      }
      expect([server.state.state, server.state.losses, sessions]).toEqual(["connected", 0, 1]);
      await server.close();
    },
  );

  it("whose answer to a call cannot be read may have carried it out", async () => {
    const server = createServer(config, { fetch: serve([], {}, () => '{"jsonrpc":"2.0",') });
    const call = { tool: "plain", input: {}, callId: "c1", signal: AbortSignal.timeout(60_000) };
    await expect(server.call(call)).rejects.toBeInstanceOf(OutcomeUnknownError);
    await server.close();
  });

  it("gets each call once, with the call's id as the idempotency key, and is informed of one that is cancelled", async () => {
    world = await createMcpWorld({ book: ledgerServer() }, (call) => {
      if (call === 0) return { tool: "book__mark", input: {} };
      return call === 1 ? { tool: "book__hang", input: {} } : done;
    });
    const runId = await world.orderRun({ message: "Go." });
    await world.until(async () => calls().length === 2);
    await world.admin(`/admin/v1/runs/${runId}/cancel`, { method: "POST" });
    await world.until(async () =>
      readLedger(ledger).some(({ cancelled }) => cancelled !== undefined),
    );
    expect(calls().map(({ call, key }) => [call, key])).toEqual([
      ["mark", `${runId}.0.0`],
      ["hang", `${runId}.1.0`],
    ]);
  });

  it("that dies in a call is started again, the call is not repeated, and its next call works", async () => {
    const server = createServer(ledgerServer());
    const call = (tool: string, callId: string) =>
      server.call({ tool, input: {}, callId, signal: AbortSignal.timeout(60_000) });
    await expect(call("die", "c1")).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await call("mark", "c2")).toEqual({ parts: [{ type: "text", text: "marked" }] });
    expect(calls().map(({ call, key }) => [call, key])).toEqual([
      ["die", "c1"],
      ["mark", "c2"],
    ]);
    expect(new Set(calls().map(({ pid }) => pid)).size).toBe(2);
    await server.close();
    expect(findChildren(LEDGER_SERVER)).toEqual([]);
  });

  it("that does not answer in time is informed, and the outcome of the call is unknown", async () => {
    const server = createServer({ ...ledgerServer(), callTimeout: 300 });
    const call = (tool: string) =>
      server.call({ tool, input: {}, callId: tool, signal: AbortSignal.timeout(60_000) });
    await expect(call("hang")).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await call("mark")).toEqual({ parts: [{ type: "text", text: "marked" }] });
    expect(readLedger(ledger).filter(({ cancelled }) => cancelled !== undefined)).toHaveLength(1);
    expect(server.state).toMatchObject({ state: "connected", losses: 0 });
    await server.close();
  });

  it("that is not there is not called: the error says so, and nothing is unknown", async () => {
    const server = createServer({
      url: `http://127.0.0.1:${await findPort()}/mcp`,
      type: "http",
      headers: {},
    });
    const made = server.call({
      tool: "mark",
      input: {},
      callId: "c1",
      signal: AbortSignal.timeout(1_500),
    });
    await expect(made).rejects.toThrow("mcp.servers.all is not connected; the tool was not called");
    expect(server.state).toMatchObject({
      state: "failing",
      error: expect.stringContaining("ECONNREFUSED"),
    });
    await server.close();
  });

  it("whose list of tools has changed offers the new ones to the next turn", async () => {
    world = await createMcpWorld({ book: ledgerServer() }, (call) =>
      call === 0 ? { tool: "book__grow", input: {} } : done,
    );
    const { model, vendor } = world;
    await world.run();
    expect(vendor.toolNames(model.requests[0] as never)).not.toContain("book__grown");
    await world.until(async () => {
      await world?.run();
      return vendor.toolNames(model.requests.at(-1) as never).includes("book__grown");
    });
    expect(readLedger(ledger).filter(({ started }) => started)).toHaveLength(1);
  });

  it("shows how it does in the operator's status, the metrics and the doctor, without a secret", async () => {
    const secret = "canary-secret-4711";
    const servers = {
      book: ledgerServer({ TOKEN: secret }),
      gone: {
        url: `http://127.0.0.1:${await findPort()}/${secret}`,
        headers: { authorization: secret },
      },
      lost: { command: "/nowhere/mcp", args: [secret] },
    };
    world = await createMcpWorld(servers, () => done);
    const { admin, until } = world;
    // Nobody has run a turn: an agent names the servers.
    const states = await until(async () => {
      const { mcpServers } = (await admin("/readyz?detail")).body;
      return (
        mcpServers.every(
          ({ state }: { state: string }) => state === "connected" || state === "failing",
        ) && mcpServers
      );
    });
    expect(states).toEqual([
      { name: "book", state: "connected", tools: 7, losses: 0, since: expect.any(Number) },
      {
        name: "gone",
        state: "failing",
        tools: 0,
        losses: 0,
        error: expect.stringContaining("ECONNREFUSED"),
        nextTryAt: expect.any(Number),
      },
      {
        name: "lost",
        state: "failing",
        tools: 0,
        losses: 0,
        error: expect.stringContaining("ENOENT"),
        nextTryAt: expect.any(Number),
      },
    ]);
    const { body: metrics } = await admin("/metrics");
    expect(metrics).toContain('rouse_mcp_server_up{server="book"} 1');
    expect(metrics).toContain('rouse_mcp_server_tools{server="book"} 7');
    expect(metrics).toContain('rouse_mcp_server_up{server="gone"} 0');
    const { checks } = (await admin("/admin/v1/doctor")).body;
    const found = checks.find(({ id }: { id: string }) => id === "mcp-servers");
    expect(found).toMatchObject({
      status: "fail",
      message: expect.stringMatching(/gone: .*ECONNREFUSED.*lost: .*ENOENT/),
    });
    const { warnings } = await world.run();
    expect(warnings).toEqual([
      "the tools of mcp.servers.gone are missing: it cannot be reached (ECONNREFUSED)",
      "the tools of mcp.servers.lost are missing: its program or its folder does not exist (ENOENT)",
    ]);
    expect(JSON.stringify([states, metrics, checks, warnings])).not.toContain(secret);
  });

  it("ends with the gateway, and with the config that names it once no turn uses it", async () => {
    world = await createMcpWorld({ book: ledgerServer() }, (call) =>
      call === 0 ? { tool: "book__hang", input: {} } : done,
    );
    const { write, admin, until } = world;
    const runId = await world.orderRun({ message: "Go." });
    await until(async () => calls().length === 1);
    const [first] = findChildren(LEDGER_SERVER);
    const written = JSON.parse(readFileSync(join(world.dir, "rouse.json5"), "utf8")) as object;
    write("rouse.json5", { ...written, mcp: { servers: { book: ledgerServer({ OTHER: "1" }) } } });
    await admin("/admin/v1/reload", { method: "POST" });
    await until(async () => findChildren(LEDGER_SERVER).length === 2);
    expect(findChildren(LEDGER_SERVER)).toContain(first);
    await admin(`/admin/v1/runs/${runId}/cancel`, { method: "POST" });
    await until(async () => !findChildren(LEDGER_SERVER).includes(first as number));
    expect(findChildren(LEDGER_SERVER)).toHaveLength(1);
    await world.stop();
    world = undefined;
    expect(findChildren(LEDGER_SERVER)).toEqual([]);
  });
});
