import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import {
  activityRequest,
  directMessage,
  ENTRA,
  PERSONAL,
  teamsServer,
} from "../channels/teams-server.ts";
import { section } from "../channels/teams-world.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { createWorld, type World, type WorldOptions } from "./world.ts";

/** A service, a channel that listens, and one that only waits for requests; what they do is printed. */
const PLUGINS = {
  "plugins/box.ts": `
import { z } from "zod";
import { definePlugin } from "rouse/plugin";
const untilAborted = (signal) => new Promise((done) => signal.addEventListener("abort", done, { once: true }));
export default definePlugin({
  id: "box",
  section: "hooks",
  config: z.strictObject({}),
  source: ({ print }) => ({
    async start(signal, host) {
      host.report({ ok: true, message: "looks" });
      print("box runs");
      await untilAborted(signal);
      print("box ends");
    },
    onPeerRequest: () => print("box nudged"),
    request: async () => new Response("box answers"),
  }),
});`,
  "plugins/radio.ts": `
import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "radio",
  config: z.strictObject({}),
  channel: ({ print }) => ({
    defaultTo: "all",
    allowFrom: ["me"],
    async send({ to, text }) { print("radio sends " + text); return { status: "sent" }; },
    async listen(signal, host) {
      const place = Number((await host.cursor()) ?? 0) + 1;
      print("radio listens from " + place);
      await host.receive({ id: "m" + place, from: "me", to: "all", parts: [{ kind: "own", text: "over " + place }], direct: true });
      await host.saveCursor(String(place));
      await new Promise((done) => signal.addEventListener("abort", done, { once: true }));
    },
  }),
});`,
  "plugins/postbox.ts": `
import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "postbox",
  config: z.strictObject({}),
  channel: () => ({
    allowFrom: ["me"],
    send: async () => ({ status: "sent" }),
    async request(request, host) {
      await host.receive({ id: await request.text(), from: "me", to: "me", parts: [{ kind: "own", text: "a letter" }], direct: true });
      return new Response("received");
    },
  }),
});`,
};

describePostgres("gateways that share a store", () => {
  let schema: Schema;
  let provider: Provider;
  let worlds: World[] = [];
  let dirs: string[] = [];

  beforeEach(async () => {
    schema = newSchema();
    provider = await createProvider();
  });
  afterEach(async () => {
    await Promise.all(worlds.splice(0).map((world) => world.stop()));
    for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
    await provider.close();
    await schema.drop();
  });

  const configOf = (more: object = {}): object => ({
    store: { url: schema.url },
    ...modelConfig(provider),
    gateway: { token: "operator-token-0123456789" },
    ...more,
  });
  const open = async (options: WorldOptions = {}): Promise<World> => {
    const dir = mkdtempSync(join(tmpdir(), "rouse-many-"));
    dirs.push(dir);
    const world = await createWorld({ ...options, dir, config: configOf(options.config) });
    worlds.push(world);
    return world;
  };
  const close = async (world: World): Promise<void> => {
    worlds = worlds.filter((one) => one !== world);
    await world.stop();
  };
  const patiently = async (world: World, done: () => Promise<boolean>): Promise<void> => {
    // A lease moves within 15 seconds; here it is given back.
    for (let tries = 0; tries < 3 && !(await world.until(done).catch(() => false)); tries++);
    expect(await done()).toBe(true);
  };
  const detail = async (world: World) => (await world.admin("/readyz?detail")).body;
  const check = async (world: World, id: string) =>
    (await world.admin("/admin/v1/doctor")).body.checks.find(
      (one: { id: string }) => one.id === id,
    );

  it("run services, listeners, timer and sweeps once, and requests are answered by all", async () => {
    const config = { hooks: { box: {} }, channels: { radio: {}, postbox: {} } };
    // Both services are with one gateway before the other starts: otherwise they may be divided, and only one would move.
    const holder = await open({ config, files: PLUGINS });
    await holder.until(
      async () =>
        holder.printed.includes("box runs") && holder.printed.includes("radio listens from 1"),
    );
    const other = await open({ config, files: PLUGINS });
    const names = ["recovery", "schedules", "service:box", "service:radio", "sweep"];
    await patiently(
      other,
      async () =>
        (await detail(other)).leases.filter((one: { holder: string }) => one.holder !== null)
          .length === names.length,
    );
    const [told, toldByOther] = [await detail(holder), await detail(other)];
    expect(told.leases.map((one: { name: string }) => one.name)).toEqual(names);
    expect(told.leases).toEqual(toldByOther.leases);
    for (const lease of told.leases)
      expect(lease).toMatchObject({
        pid: process.pid,
        host: expect.any(String),
        since: expect.any(String),
      });
    expect(told.gateways).toMatchObject([
      { self: true, workers: true, alive: true },
      { self: false, alive: true },
    ]);
    const both = [...holder.printed, ...other.printed];
    expect(both.filter((line) => line === "box runs")).toHaveLength(1);
    expect(both.filter((line) => line.startsWith("radio listens"))).toEqual([
      "radio listens from 1",
    ]);
    const message = async (world: World): Promise<string> =>
      (await detail(world)).services.find((one: { id: string }) => one.id === "box").message;
    expect([await message(holder), await message(other)]).toEqual([
      "looks",
      "another gateway runs it",
    ]);

    for (const world of [holder, other]) {
      const request = (path: string, body: string): Promise<Response> =>
        world.gateway.fetch(
          new Request(`http://127.0.0.1/channels/${path}`, { method: "POST", body }),
        );
      expect(await (await request("box/x", "")).text()).toBe("box answers");
      expect(
        await (await request("postbox/in", world === holder ? "letter-a" : "letter-b")).text(),
      ).toBe("received");
    }
    // News that the other gateway took reaches the one that runs the service; its own request does not count.
    await holder.until(async () => holder.printed.includes("box nudged"));
    expect(other.printed).not.toContain("box nudged");
    const events = (await holder.admin("/admin/v1/events?path=channels/postbox")).body.events;
    expect(events).toHaveLength(2);

    await close(holder);
    await patiently(other, async () => other.printed.includes("box runs"));
    expect(holder.printed).toContain("box ends");
    await patiently(other, async () =>
      [...holder.printed, ...other.printed].includes("radio listens from 2"),
    );
    await patiently(other, async () =>
      (await detail(other)).leases.every((one: { holder: string }) => one.holder !== null),
    );
    expect((await detail(other)).gateways).toHaveLength(1);
  });

  it("reach a person of whom only another gateway has heard", async () => {
    const teams = await teamsServer();
    onTestFinished(teams.close);
    const config = { channels: { msteams: { ...section(teams.url), allowFrom: [] } } };
    const first = await open({ config });
    const request = activityRequest(directMessage(teams.url), await teams.sign());
    const heard = await first.gateway.fetch(
      new Request("http://127.0.0.1/channels/msteams/api/messages", request),
    );
    expect(heard.status).toBe(200);
    await close(first);
    // Another machine: its state folder does not have the conversation.
    const second = await open({ config });
    const answer = await second.post("/hooks/agent", {
      message: "x",
      channel: "msteams",
      to: `user:${ENTRA}`,
      deliver: true,
    });
    expect(answer.status).toBe(202);
    await second.until(async () => teams.arrived.length > 0);
    expect([teams.arrived[0]?.to, teams.opened]).toEqual([PERSONAL, []]);
  });

  it("carry out each wake soon, whichever gateway took it and whichever ran the last heartbeat", async () => {
    const [a, b] = [await open(), await open()];
    const queued = async (): Promise<number> => (await detail(a)).counts["systemEvents.queued"];
    for (let n = 0; n < 12; n++) {
      const answer = await (n % 2 === 0 ? a : b).post("/hooks/wake", { text: `wake ${n}` });
      expect(answer.status).toBe(200);
      await a.until(async () => (await queued()) === 0);
    }
    // Several at once, while heartbeats run.
    provider.answer = () => new Promise((done) => setTimeout(() => done("HEARTBEAT_OK"), 30));
    await Promise.all(
      Array.from({ length: 30 }, (_, n) =>
        (n % 2 === 0 ? a : b).post("/hooks/wake", { text: `more ${n}` }),
      ),
    );
    await a.until(async () => (await queued()) === 0);
    const said = provider.requests.map((request) => provider.text(request)).join("\n");
    for (let n = 0; n < 30; n++) expect(said).toContain(`more ${n}`);
    // Heartbeats never overlap, and none was about nothing.
    expect(said).not.toContain("Nothing has been queued");
  });

  it("answer for a run that another carries out: a caller that waits, a cancel, a turn of the API", async () => {
    const keys = {
      platform: { apiKeys: [{ id: "desk", key: "desk-api-key-0123456789", scopes: ["chat"] }] },
    };
    const front = await open({ workers: false, config: keys });
    const worker = await open({ config: keys });
    const waited = await front.post(
      "/hooks/agent",
      { message: "hello", deliver: false },
      { prefer: "wait=20" },
    );
    expect(waited).toMatchObject({
      status: 200,
      body: { ok: true, status: "succeeded", reply: "fine" },
    });

    let release = (_text: string): void => undefined;
    const hang = (): void => void (provider.answer = () => new Promise((done) => (release = done)));
    hang();
    const { runId } = (await front.post("/hooks/agent", { message: "long", deliver: false })).body;
    const runOf = async (id: string) => (await front.admin(`/admin/v1/runs/${id}`)).body.run;
    await front.until(async () => (await runOf(runId)).status === "running");
    const cancelled = await front.admin(`/admin/v1/runs/${runId}/cancel`, { method: "POST" });
    expect(cancelled.body.run.status).toBe("cancelled");
    release("late");
    expect((await runOf(runId)).status).toBe("cancelled");

    hang();
    const chat = worker.gateway.fetch(
      new Request("http://127.0.0.1/v1/chat/completions", {
        method: "POST",
        headers: {
          authorization: "Bearer desk-api-key-0123456789",
          "content-type": "application/json",
        },
        body: JSON.stringify({ model: "main", messages: [{ role: "user", content: "hi" }] }),
      }),
    );
    const running = async () =>
      (await front.admin("/admin/v1/runs?status=running")).body.runs.find(
        (run: { kind: string }) => run.kind === "api",
      );
    const { id } = await front.until(running);
    // A gateway that starts leaves what another one does alone.
    const third = await open({ config: keys });
    expect((await third.admin(`/admin/v1/runs/${id}`)).body.run.status).toBe("running");
    const stopped = await third.admin(`/admin/v1/runs/${id}/cancel`, { method: "POST" });
    expect(stopped.body.run.status).toBe("cancelled");
    release("late");
    await chat;
  });

  it("keys of the API that one makes or revokes, all know", async () => {
    const [a, b] = [await open(), await open()];
    const ask = async (world: World, key: string): Promise<number> =>
      (
        await world.gateway.fetch(
          new Request("http://127.0.0.1/v1/models", {
            headers: { authorization: `Bearer ${key}` },
          }),
        )
      ).status;
    expect(await ask(b, "rk_nobody")).toBe(401);
    const make = (world: World, id: string) =>
      world.admin("/admin/v1/keys", { method: "POST", body: JSON.stringify({ id }) });
    const made = await Promise.all([make(a, "one"), make(b, "two")]);
    expect(made.map(({ status }) => status)).toEqual([200, 200]);
    const [one, two] = made.map(({ body }) => body.secret ?? body.key) as [string, string];
    for (const world of [a, b])
      for (const key of [one, two]) await world.until(async () => (await ask(world, key)) === 200);
    expect((await a.admin("/admin/v1/keys/one", { method: "DELETE" })).status).toBe(200);
    await b.until(async () => (await ask(b, one)) === 401);
    expect(await ask(b, two)).toBe(200);
  });

  it("doctor says where configs differ, and that all is well once they do not", async () => {
    const a = await open();
    const b = await open();
    const isOk = async (world: World): Promise<boolean> =>
      (await check(world, "gateways")).status === "ok";
    await a.until(() => isOk(a));
    expect((await check(a, "gateways")).message).toContain("2 share the store");
    await b.reload(configOf({ hooks: { retention: "1d" } }));
    await a.until(async () => !(await isOk(a)));
    const told = await check(a, "gateways");
    expect(told).toMatchObject({
      status: "warn",
      message: expect.stringContaining("bring the same files to all"),
    });
    const [hashA, hashB] = (await detail(a)).gateways.map(
      (one: { snapshot: string }) => one.snapshot,
    );
    expect(hashA).not.toBe(hashB);
    expect(told.message).toContain(hashA.slice(0, 12));
  });
});
