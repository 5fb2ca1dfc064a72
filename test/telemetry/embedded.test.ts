import { AsyncLocalStorage } from "node:async_hooks";
import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import {
  context,
  ROOT_CONTEXT,
  trace,
  type Context,
  type ContextManager,
} from "@opentelemetry/api";
import {
  InMemorySpanExporter,
  SimpleSpanProcessor,
  TracerProvider,
  type ReadableSpan,
} from "@opentelemetry/sdk-trace";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Gateway } from "rouse";
import {
  embed,
  hook,
  keepingLog,
  keepingPlugin,
  ownFolder,
  TOKEN,
  until,
} from "../library/support.ts";
import { createCollector } from "./collector.ts";

const SENDER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";

/** Keeps contexts as the SDK's own package does for Node. */
class Contexts implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();
  active(): Context {
    return this.#storage.getStore() ?? ROOT_CONTEXT;
  }
  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    active: Context,
    work: F,
    thisArg?: ThisParameterType<F>,
    ...args: A
  ) {
    return this.#storage.run(active, () => work.apply(thisArg, args));
  }
  bind<T>(_context: Context, target: T): T {
    return target;
  }
  enable(): this {
    return this;
  }
  disable(): this {
    return this;
  }
}

const HOOK = { message: "hi", wakeMode: "next-heartbeat" };
/** A hook whose sender has a trace. */
function tracedHook(): Request {
  const request = hook("agent", HOOK);
  request.headers.set("traceparent", SENDER);
  return request;
}

/** Sends a hook and waits until its reply has been delivered. */
async function deliver(gateway: Gateway, request: Request): Promise<void> {
  let ends = 0;
  const off = gateway.on("delivery.ended", () => void ends++);
  expect((await gateway.fetch(request)).status).toBe(202);
  await until(() => ends > 0);
  off();
}

describe("a program with a tracer provider of its own", () => {
  const exporter = new InMemorySpanExporter();
  const names = (spans: readonly ReadableSpan[]): string[] =>
    spans.map(({ name }) => name).toSorted();

  beforeEach(() => {
    trace.setGlobalTracerProvider(
      new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }),
    );
  });
  afterEach(() => {
    trace.disable();
    context.disable();
    exporter.reset();
  });

  it("gets the gateway's spans, below its own", async () => {
    context.setGlobalContextManager(new Contexts());
    const { plugin } = keepingPlugin();
    const log = keepingLog();
    const gateway = await embed({ plugins: [plugin], log });
    await gateway.start();
    const tracer = trace.getTracer("program");
    await tracer.startActiveSpan("of the program", async (span) => {
      await deliver(gateway, tracedHook());
      span.end();
    });
    const spans = exporter.getFinishedSpans();
    expect(names(spans)).toEqual([
      "POST /hooks/agent",
      "deliver acme",
      "invoke_agent main",
      "of the program",
    ]);
    const byName = new Map(spans.map((span) => [span.name, span]));
    const own = byName.get("of the program")?.spanContext();
    // The program has read the sender's headers itself, or does not want them.
    expect(byName.get("POST /hooks/agent")?.parentSpanContext).toMatchObject({
      spanId: own?.spanId,
      traceId: own?.traceId,
    });
    expect(byName.get("deliver acme")?.parentSpanContext?.spanId).toBe(
      byName.get("invoke_agent main")?.spanContext().spanId,
    );
    expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(1);
    expect(log.lines.find(({ message }) => message === "a run ended")?.fields).toMatchObject({
      traceId: own?.traceId,
    });
  });

  it("gets them in the senders' traces where it has no span of its own, and for events that it hands over itself", async () => {
    const { plugin } = keepingPlugin();
    const gateway = await embed({ plugins: [plugin] });
    await gateway.start();
    await deliver(gateway, tracedHook());
    const spans = exporter.getFinishedSpans();
    expect(names(spans)).toEqual(["POST /hooks/agent", "deliver acme", "invoke_agent main"]);
    expect(new Set(spans.map((span) => span.spanContext().traceId))).toEqual(new Set([TRACE]));
    exporter.reset();
    await gateway.receive({
      path: "agent",
      body: { message: "hi", deliver: false, wakeMode: "next-heartbeat" },
    });
    await until(() => exporter.getFinishedSpans().length >= 2);
    expect(names(exporter.getFinishedSpans())).toEqual(["invoke_agent main", "receive agent"]);
  });

  it("is not asked by a gateway that has a collector of its own, and two gateways do not see each other's", async () => {
    const [left, right] = [await createCollector(), await createCollector()];
    const open = async (url: string, serviceName: string) => {
      const { plugin } = keepingPlugin();
      const gateway = await embed({
        plugins: [plugin],
        config: {
          telemetry: { otlp: { url, serviceName } },
          gateway: { drainSeconds: 1 },
          hooks: { enabled: true, token: TOKEN },
        },
      });
      await gateway.start();
      return gateway;
    };
    const gateways = [await open(left.url, "left"), await open(`${right.url}/v1/traces`, "right")];
    await Promise.all(gateways.map((gateway) => deliver(gateway, hook("agent", HOOK))));
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    expect(exporter.getFinishedSpans()).toEqual([]);
    for (const [collector, service] of [
      [left, "left"],
      [right, "right"],
    ] as const) {
      expect(collector.spans.map(({ name }) => name).toSorted()).toEqual([
        "POST /hooks/agent",
        "deliver acme",
        "invoke_agent main",
      ]);
      expect(new Set(collector.spans.map((span) => span.service))).toEqual(new Set([service]));
      expect(new Set(collector.spans.map(({ traceId }) => traceId)).size).toBe(1);
    }
    expect(left.spans[0]?.traceId).not.toBe(right.spans[0]?.traceId);
  });
});

const ROOT = resolve(import.meta.dirname, "../..");

/** Runs a program that embeds a gateway and takes a hook; returns what modules of telemetry it loaded. */
async function loadedBy(before = ""): Promise<string[]> {
  const dir = ownFolder();
  mkdirSync(join(dir, "node_modules"));
  symlinkSync(ROOT, join(dir, "node_modules", "rouse"));
  symlinkSync(
    join(ROOT, "node_modules", "@opentelemetry"),
    join(dir, "node_modules", "@opentelemetry"),
  );
  const files = {
    "package.json": '{ "type": "module" }',
    "record.js": `import { registerHooks } from "node:module";
const loaded = new Set();
registerHooks({
  load(url, context, next) {
    if (/node_modules\\/@opentelemetry\\/[^/]+|\\/src\\/telemetry\\/[^/]+$/.test(url)) loaded.add(/@opentelemetry\\/[^/]+|telemetry\\/[^/]+$/.exec(url)[0]);
    return next(url, context);
  },
});
process.on("exit", () => console.log(JSON.stringify([...loaded])));
`,
    "program.js": `${before}
import { createGateway, definePlugin } from "rouse";
const config = { hooks: { enabled: true, token: "${TOKEN}" } };
const printer = definePlugin({ id: "printer", channel: () => ({ defaultTo: "all", send: async () => ({ status: "sent" }) }) });
const gateway = await createGateway({ config, plugins: [printer], env: {} });
await gateway.start();
const delivered = new Promise((resolve) => gateway.on("delivery.ended", ({ status }) => resolve(status)));
const headers = { authorization: "Bearer ${TOKEN}", "content-type": "application/json", traceparent: "${SENDER}" };
const body = '{"message":"hi"}';
const answer = await gateway.fetch(new Request("http://localhost/hooks/agent", { method: "POST", headers, body }));
if (answer.status !== 202 || (await delivered) !== "delivered") throw new Error("the hook was not worked on");
await gateway.stop();
`,
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  const args = [
    "--conditions=rouse-source",
    "--disable-warning=ExperimentalWarning",
    "--import",
    "./record.js",
    "program.js",
  ];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args, {
    cwd: dir,
    timeout: 60_000,
    env: { PATH: process.env["PATH"] ?? "" },
  });
  expect(stderr).toBe("");
  return (JSON.parse(stdout) as string[]).toSorted();
}

describe("the modules that a gateway loads", () => {
  it("have nothing of OpenTelemetry if nothing collects traces", async () => {
    expect(await loadedBy()).toEqual(["telemetry/open.ts"]);
  });

  it("have the interface alone where the program has a tracer provider", async () => {
    const before =
      'import { ProxyTracerProvider, trace } from "@opentelemetry/api";\ntrace.setGlobalTracerProvider(new ProxyTracerProvider());';
    const loaded = await loadedBy(before);
    expect(loaded).toContain("@opentelemetry/api");
    expect(loaded).toContain("telemetry/spans.ts");
    expect(loaded).not.toContain("@opentelemetry/sdk-trace");
  });
});
