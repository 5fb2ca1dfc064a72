import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import {
  createGateway,
  RouseError,
  type DeliveryView,
  type RunDetail,
  type EventView,
} from "rouse";
import { embed, hook, keepingLog, keepingPlugin, ownFolder, TOKEN, until } from "./support.ts";

describe("a gateway inside another program", () => {
  it("takes a hook through its fetch, and delivers the reply through a plugin that is an object", async () => {
    const { plugin, sent } = keepingPlugin();
    const gateway = await embed({ plugins: [plugin] });
    const recorded: EventView[] = [];
    const runs: RunDetail[] = [];
    const deliveries: DeliveryView[] = [];
    gateway.on("event.recorded", (event) => void recorded.push(event));
    gateway.on("run.ended", (run) => void runs.push(run));
    gateway.on("delivery.ended", (delivery) => void deliveries.push(delivery));
    expect(await gateway.start()).toBeUndefined();
    const answer = await gateway.fetch(hook("agent", { message: "hello there" }));
    const { eventId, runId } = (await answer.json()) as { eventId: string; runId: string };
    expect(answer.status).toBe(202);
    const delivery = await until(() => deliveries[0]);
    expect(sent).toEqual([
      expect.objectContaining({
        to: "everybody",
        text: expect.stringContaining("hello there") as string,
      }),
    ]);
    expect(recorded).toEqual([
      expect.objectContaining({ id: eventId, path: "agent", outcome: "accepted" }),
    ]);
    expect(runs.find(({ id }) => id === runId)).toMatchObject({
      eventId,
      status: "succeeded",
      reply: sent[0]?.text,
      model: "builtin/echo",
    });
    expect(delivery).toMatchObject({
      runId,
      channel: "acme",
      to: "everybody",
      status: "delivered",
    });
    expect(gateway.status()).toMatchObject({ url: undefined, workers: true, draining: false });
  });

  it("takes events without HTTP, by the same mappings and keys, and says what became of each", async () => {
    const mappings = [
      {
        id: "shop",
        match: { path: "shop", payload: { kind: "order" } },
        action: "agent" as const,
        messageTemplate: "Order {{id}}",
        dedupeKey: "{{id}}",
      },
      {
        id: "signed",
        match: { path: "signed" },
        action: "wake" as const,
        textTemplate: "{{text}}",
        auth: { scheme: "github", secret: "signing-secret-of-the-test" },
      },
    ];
    const gateway = await embed({ config: { hooks: { enabled: true, token: TOKEN, mappings } } });
    const recorded: EventView[] = [];
    gateway.on("event.recorded", (event) => void recorded.push(event));
    const first = await gateway.receive({ path: "shop", body: { kind: "order", id: 7 } });
    if (first.kind !== "receipt") throw new Error(JSON.stringify(first));
    expect(first).toMatchObject({
      outcome: "accepted",
      mapping: "shop",
      actions: [{ ok: true, status: "queued" }],
    });
    const [action] = first.actions;
    const again = await gateway.receive({ path: "/shop/", body: { kind: "order", id: 7 } });
    expect(again).toMatchObject({
      actions: [{ ok: true, duplicate: true, runId: action?.ok ? action.runId : "none" }],
    });
    expect(await gateway.receive({ path: "shop", body: { kind: "refund" } })).toMatchObject({
      outcome: "unmatched",
      nearest: { mapping: "shop" },
    });
    expect(
      await gateway.receive({
        path: "shop",
        body: Buffer.from("{"),
        headers: { "Content-Type": "application/json" },
      }),
    ).toMatchObject({
      outcome: "rejected",
      error: { code: "invalid_json" },
    });
    await expect(gateway.receive({ path: "shop", body: { kind: 7n } })).rejects.toThrow(TypeError);
    // The program vouches for its own events.
    const body = Buffer.from('{"text":"hi"}');
    expect(await gateway.receive({ path: "signed", body })).toMatchObject({
      outcome: "accepted",
      actions: [{ systemEventId: expect.any(String) }],
    });
    const outcomes = ["accepted", "duplicate", "unmatched", "rejected", "accepted"];
    await until(() => recorded.length === outcomes.length);
    expect(recorded.map(({ outcome }) => outcome).toSorted()).toEqual(outcomes.toSorted());
    await gateway.stop();
    expect(await gateway.receive({ path: "shop", body: {} })).toMatchObject({
      kind: "denied",
      error: { code: "draining" },
    });
  });

  it("leaves the memory of a body alone that the program made, also if it refuses the body", async () => {
    const mapping = {
      id: "small",
      match: { path: "small" },
      maxBodyBytes: 10,
      messageTemplate: "x",
    };
    const gateway = await embed({
      config: { hooks: { enabled: true, token: TOKEN, mappings: [mapping] } },
    });
    const pieces = [Buffer.alloc(8, "a"), Buffer.alloc(8, "b")].map(
      (piece) => new Uint8Array(piece),
    );
    const body = new ReadableStream({
      start(controller) {
        for (const piece of pieces) controller.enqueue(piece);
        controller.close();
      },
    });
    const headers = { authorization: `Bearer ${TOKEN}` };
    const request = new Request("http://host.example/hooks/small", {
      method: "POST",
      headers,
      body,
      duplex: "half",
    });
    expect((await gateway.fetch(request)).status).toBe(413);
    expect(pieces.map((piece) => piece.length)).toEqual([8, 8]);
  });

  it("uses nothing of the process: no signal, no output, no variable, no clock and no network but its own", async () => {
    const listeners = () => process.eventNames().map((name) => [name, process.listenerCount(name)]);
    const before = [listeners(), JSON.stringify(process.env), process.exitCode];
    const [out, err] = [vi.spyOn(process.stdout, "write"), vi.spyOn(process.stderr, "write")];
    onTestFinished(() => void vi.restoreAllMocks());
    const requests: string[] = [];
    const gateway = await embed({
      plugins: [keepingPlugin().plugin],
      config: {
        hooks: { enabled: true, token: "${THE_TOKEN}" },
        agents: { defaults: { model: "openai/m" } },
        gateway: { drainSeconds: 1 },
      },
      env: { THE_TOKEN: TOKEN, OPENAI_API_KEY: "key-of-the-options" },
      clock: {
        now: () => 1_000_000_000_000,
        sleep: (_ms, signal) =>
          new Promise((done) => signal?.addEventListener("abort", () => done())),
      },
      fetch: async (input, init) => {
        const request = new Request(input, init);
        requests.push(`${request.url} ${request.headers.get("authorization")}`);
        return Response.json({ error: { message: "no such key" } }, { status: 401 });
      },
    });
    const recorded: EventView[] = [];
    const runs: RunDetail[] = [];
    gateway.on("event.recorded", (event) => void recorded.push(event));
    gateway.on("run.ended", (run) => void runs.push(run));
    await gateway.start();
    await gateway.fetch(hook("agent", { message: "hi" }));
    expect(await until(() => runs[0])).toMatchObject({
      status: "failed",
      endedAt: "2001-09-09T01:46:40.000Z",
    });
    expect(recorded[0]).toMatchObject({
      receivedAt: "2001-09-09T01:46:40.000Z",
      id: expect.stringMatching(/^evt_/) as string,
    });
    // The main session is asked too.
    expect([...new Set(requests)]).toEqual([
      expect.stringMatching(/^https:\/\/api\.openai\.com\/.* Bearer key-of-the-options$/),
    ]);
    await gateway.stop();
    expect([listeners(), JSON.stringify(process.env), process.exitCode]).toEqual(before);
    expect([out.mock.calls, err.mock.calls]).toEqual([[], []]);
  });

  it("reads a config file with the mappings and transforms beside it, and its object again when it is reloaded", async () => {
    const dir = ownFolder();
    mkdirSync(join(dir, "transforms"));
    writeFileSync(
      join(dir, "transforms", "shout.ts"),
      `export default ({ payload }) => ({ message: payload.text.toUpperCase() });\n`,
    );
    const mapping = { id: "shout", match: { path: "shout" }, transform: { module: "shout.ts" } };
    writeFileSync(
      join(dir, "rouse.json5"),
      JSON.stringify({ hooks: { enabled: true, token: TOKEN, mappings: [mapping] } }),
    );
    const fromFile = await embed({ configFile: "rouse.json5", cwd: dir, stateDir: ownFolder() });
    expect((await fromFile.fetch(hook("shout", { text: "x" }))).status).toBe(202);
    expect(fromFile.status().configFile).toBe(join(dir, "rouse.json5"));

    const config = { hooks: { enabled: true, token: TOKEN, mappings: [mapping] } };
    const fromObject = await embed({ config, cwd: dir });
    expect((await fromObject.fetch(hook("shout", { text: "x" }))).status).toBe(202);
    expect((await fromObject.fetch(hook("later", {}))).status).toBe(404);
    config.hooks.mappings.push({ ...mapping, id: "later", match: { path: "later" } });
    expect(await fromObject.reload()).toMatchObject({ ok: true });
    expect((await fromObject.fetch(hook("later", { text: "x" }))).status).toBe(202);
    Object.assign(config.hooks, { nonsense: 1 });
    expect(await fromObject.reload()).toMatchObject({
      ok: false,
      issues: [{ path: "hooks.nonsense" }],
    });
    expect(fromObject.status().reloadProblems).toHaveLength(1);
  });

  it("listens at the address of its options, and starts once", async () => {
    const gateway = await embed();
    // As a program in JavaScript may write it: no host is the one of the config, never all addresses.
    const { url } = await gateway.start({
      listen: { port: 0, host: undefined } as { port: number },
      workers: false,
    });
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect((await fetch(`${url}/livez`)).status).toBe(200);
    expect(gateway.status()).toMatchObject({ url, workers: false });
    await expect(gateway.start()).rejects.toMatchObject({ code: "usage" });
    await Promise.all([gateway.stop(), gateway.stop()]);
    await expect(fetch(`${url}/livez`)).rejects.toThrow();
  });

  it("keeps replies that have no channel, since it has no terminal", async () => {
    const gateway = await embed();
    const deliveries: DeliveryView[] = [];
    gateway.on("delivery.ended", (delivery) => void deliveries.push(delivery));
    await gateway.start();
    await gateway.fetch(hook("agent", { message: "hi" }));
    expect(await until(() => deliveries[0])).toMatchObject({ status: "no_route" });
    const printed: string[] = [];
    const withTerminal = await embed({ print: (text) => void printed.push(text) });
    await withTerminal.start();
    await withTerminal.fetch(hook("agent", { message: "hi" }));
    expect(await until(() => printed[0])).toContain("reply to");
  });
});

describe("what a program does wrong", () => {
  const problems = async (made: Promise<unknown>): Promise<string[]> => {
    const error: unknown = await made.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(RouseError);
    const { code, issues = [] } = error as RouseError;
    return [code, ...issues.map(({ path, message }) => `${path}: ${message}`)];
  };

  it("is said with the path of each field, as for a file", async () => {
    const config = {
      hooks: { enabled: true, token: "${NO_SUCH}", mapings: [] },
      gateway: { port: "x" },
    } as never;
    expect(await problems(createGateway({ config, cwd: ownFolder(), env: {} }))).toEqual([
      "config_invalid",
      expect.stringMatching(/^hooks\.token: .*NO_SUCH/),
      expect.stringMatching(/^gateway\.port: /),
      expect.stringMatching(/^hooks\.mapings: .*mappings/),
    ]);
    expect(
      await problems(
        createGateway({ config: { hooks: { enabled: true } }, cwd: ownFolder(), env: {} }),
      ),
    ).toEqual(["config_invalid", expect.stringMatching(/^hooks\.token: is required/)]);
    expect(await problems(createGateway({ config: {}, configFile: "x.json5" }))).toEqual(["usage"]);
  });

  it("is said of plugins, by their place in the list", async () => {
    const { plugin } = keepingPlugin();
    const plugins = [plugin, { ...plugin }, { id: "Bad Name", channel: () => ({}) } as never];
    expect(await problems(embed({ plugins }))).toEqual([
      "config_invalid",
      expect.stringMatching(/^createGateway\.plugins\[2\]: `id` of the plugin/),
      expect.stringMatching(
        /^createGateway\.plugins\[1\]: another plugin \(inline\) has the id "acme"/,
      ),
    ]);
    const off = await embed({
      plugins: [plugin],
      config: { hooks: { enabled: true, token: TOKEN }, channels: { acme: { enabled: false } } },
    });
    const deliveries: DeliveryView[] = [];
    off.on("delivery.ended", (delivery) => void deliveries.push(delivery));
    await off.start();
    await off.fetch(hook("agent", { message: "hi" }));
    expect(await until(() => deliveries[0])).toMatchObject({ status: "no_route" });
  });

  it("a state folder has one gateway, also in one process", async () => {
    const stateDir = ownFolder();
    await embed({ stateDir });
    expect(await problems(embed({ stateDir }))).toEqual(["store_locked"]);
  });

  it("listeners that throw, reject or never end hold up nothing", async () => {
    const log = keepingLog();
    const { plugin, sent } = keepingPlugin();
    const gateway = await embed({ plugins: [plugin], log });
    let heard = 0;
    gateway.on("event.recorded", () => {
      heard++;
      throw new TypeError("canary-thrown");
    });
    gateway.on("run.ended", async () => Promise.reject(new Error("canary-rejected")));
    gateway.on("run.ended", () => new Promise(() => undefined));
    const off = gateway.on("event.recorded", () => void heard++);
    await gateway.start();
    await gateway.fetch(hook("agent", { message: "hi" }));
    await until(() => sent[0]);
    await until(() => heard === 2);
    off();
    await gateway.fetch(hook("wake", { text: "hi", mode: "next-heartbeat" }));
    await until(() => heard === 3);
    const failed = () =>
      log.lines.filter(({ message }) => message === "a listener of the gateway failed");
    await until(() => failed().length >= 3);
    expect(JSON.stringify(log.lines)).not.toContain("canary");
    expect(failed()[0]).toMatchObject({
      level: "warn",
      fields: { event: "event.recorded", err: { name: "TypeError" } },
    });
  });
});
