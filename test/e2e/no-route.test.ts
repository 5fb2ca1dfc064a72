import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { serve } from "../channels/wire.ts";
import { createCli } from "../cli/world.ts";
import { createProvider, modelConfig, type Provider } from "./provider.ts";
import { roomsPlugin, sentTo } from "./rooms.ts";
import { createWorld, TOKEN, type World } from "./world.ts";

const REPLY = Array.from({ length: 12 }, (_, n) => `sentence number ${n}.`).join(" ");
const MAPPING = {
  id: "order",
  match: { path: "order" },
  messageTemplate: "order {{id}}",
  wakeMode: "next-heartbeat",
};

/** The channel may have it before the command asks how it is. */
const SENT = "(?:pending|delivered)";

let provider: Provider;
let folder: string;
let dir: string;
let world: World | undefined;
beforeEach(async () => {
  provider = await createProvider();
  provider.answer = () => REPLY;
  folder = mkdtempSync(join(tmpdir(), "rouse-no-route-"));
  dir = mkdtempSync(join(tmpdir(), "rouse-no-route-"));
});
afterEach(async () => {
  await world?.stop();
  await provider.close();
  for (const path of [folder, dir]) rmSync(path, { recursive: true, force: true });
});

/** Without `defaultTo` and `allowFrom`, the channel has no route for replies that name no recipient. */
function configOf(rooms: object, hooks: object = {}): object {
  const mappings = [MAPPING];
  return {
    ...modelConfig(provider),
    hooks: { token: TOKEN, enabled: true, mappings, ...hooks },
    channels: { rooms: { folder, ...rooms } },
  };
}
const start = async (rooms: object, hooks?: object): Promise<World> =>
  (world = await createWorld({
    dir,
    files: { "plugins/rooms.ts": roomsPlugin("rooms") },
    config: configOf(rooms, hooks),
    logLevel: "trace",
  }));
const reconfigure = (here: World, rooms: object): Promise<void> => here.reload(configOf(rooms));

const ended = (here: World, runId: string) =>
  here.until(async () => {
    const { run } = (await here.get(`/hooks/runs/${runId}`)).body;
    return run.endedAt !== null && run.delivery?.status !== "pending" && run;
  });
async function order(here: World, id: number) {
  const { body } = await here.post("/hooks/order", { id });
  return ended(here, body.runId);
}
const deliveries = async (here: World, query = "") =>
  (await here.admin(`/admin/v1/deliveries${query}`)).body.deliveries;
const metric = async (here: World, line: string): Promise<boolean> =>
  String((await here.admin("/metrics")).body)
    .split("\n")
    .includes(line);
const check = async (here: World, id: string) =>
  (await here.admin("/admin/v1/doctor")).body.checks.find((one: { id: string }) => one.id === id);
/** The output of a command, without the line that names the config. */
async function rouse(command: string): Promise<{ code: number; out: string }> {
  const { code, out, err } = await (await createCli(dir)).rouse(command);
  return { code, out: out + err.replace(/^config: .*\n/, "") };
}

describe("a reply without a route", () => {
  it("is a failed delivery, listed, counted, found by doctor and logged once per mapping", async () => {
    const here = await start({});
    const [first, second] = [await order(here, 1), await order(here, 2)];
    expect(first.delivery).toMatchObject({
      status: "no_route",
      channel: null,
      to: null,
      error: { code: "no_route" },
    });
    const listed = await deliveries(here, "?status=failed");
    expect(listed).toMatchObject(
      [second, first].map(({ id }) => ({
        runId: id,
        status: "no_route",
        channel: "last",
        to: null,
        error: { code: "no_route" },
      })),
    );
    expect(await deliveries(here, "?status=no_route")).toEqual(listed);
    expect((await rouse("deliveries")).out).toMatch(
      /no_route +last +– .*no_route: the owner has not written/,
    );
    expect(await metric(here, 'rouse_store_rows{kind="deliveries",state="no_route"} 2')).toBe(true);
    expect(await metric(here, 'rouse_deliveries_total{channel="last",status="no_route"} 2')).toBe(
      true,
    );
    expect(await check(here, "routes")).toMatchObject({
      status: "warn",
      message: expect.stringMatching(
        /^replies without a route: 2, .*the mapping "order".*set its `defaultTo`.*`rouse deliveries retry --status no_route`/,
      ),
    });
    const logged = here.logged.filter((line) => line.includes("a reply has no route: it is kept"));
    expect(logged.map((line) => JSON.parse(line) as object)).toMatchObject(
      [first, second].map(({ id }) => ({ mapping: "order", runId: id })),
    );
  });

  it("is sent by a retry once there is a route, in pieces of that channel and without a model call; before, nothing changes", async () => {
    const before = await start({});
    const run = await order(before, 1);
    const [kept] = await deliveries(before);
    const early = await before.admin(`/admin/v1/deliveries/${kept.id}/retry`, { method: "POST" });
    expect([early.status, early.body.error]).toMatchObject([
      409,
      {
        code: "no_route",
        message: expect.stringMatching(/^there is still no route: .*`defaultTo`/),
      },
    ]);
    expect(await deliveries(before)).toEqual([kept]);
    await before.gateway.stop();

    const here = await start({});
    expect(await deliveries(here)).toEqual([kept]);
    await reconfigure(here, { defaultTo: "lobby" });
    expect(await rouse(`deliveries retry ${kept.id}`)).toEqual({
      code: 0,
      out: expect.stringMatching(new RegExp(`^${kept.id}  ${SENT}  rooms lobby\n$`)),
    });
    expect((await ended(here, run.id)).delivery).toMatchObject({
      status: "delivered",
      channel: "rooms",
      to: "lobby",
      error: null,
    });
    const sent = sentTo(folder, "rooms");
    expect(sent.every(({ to, text }) => to === "lobby" && text.length <= 50)).toBe(true);
    expect(sent.map(({ text }) => text).join(" ")).toBe(REPLY);
    expect(provider.requests).toHaveLength(1);
    expect((await here.admin(`/admin/v1/runs/${run.id}`)).body.run.route).toEqual({
      status: "route",
      route: { channel: "rooms", to: "lobby" },
    });
    expect(await metric(here, 'rouse_store_rows{kind="deliveries",state="no_route"} 0')).toBe(true);
    expect(await check(here, "routes")).toMatchObject({ status: "ok" });
  });

  it("is sent with all of its kind by `retry --status no_route`, the oldest first; those that still have none are named", async () => {
    const mappings = [MAPPING, { ...MAPPING, id: "pager", match: { path: "pager" }, to: "+1555" }];
    const here = await start({}, { mappings });
    provider.answer = () => `reply ${provider.requests.length}`;
    await order(here, 1);
    await order(here, 2);
    await ended(here, (await here.post("/hooks/pager", { id: 3 })).body.runId);
    await reconfigure(here, { defaultTo: "lobby" });
    const { code, out } = await rouse("deliveries retry --status no_route");
    expect([code, out]).toEqual([
      1,
      expect.stringMatching(
        new RegExp(
          `(?:.*  ${SENT}  sends one message to rooms lobby\n){2}.*write a room in small.*\n2 retried: 2 ${SENT}; 1 could not be retried\n$`,
        ),
      ),
    ]);
    await here.until(async () => sentTo(folder, "rooms").length === 2);
    expect(sentTo(folder, "rooms").map(({ text }) => text)).toEqual(["reply 1", "reply 2"]);
    expect((await rouse("deliveries retry")).code).toBe(2);
    expect((await rouse("deliveries retry dlv_x --status no_route")).code).toBe(2);
  });

  it("is none any more if its run failed, and there is a route when the run starts again", async () => {
    const here = await start({});
    provider.answer = (_request, response) => void response.writeHead(400).end("{}");
    const { id } = await order(here, 1);
    await reconfigure(here, { defaultTo: "lobby" });
    provider.answer = () => "Now it works.";
    await here.admin(`/admin/v1/runs/${id}/retry`, { method: "POST" });
    await here.until(
      async () => (await here.get(`/hooks/runs/${id}`)).body.run.delivery.status === "delivered",
    );
    expect(sentTo(folder, "rooms")).toEqual([{ to: "lobby", text: "Now it works." }]);
  });

  it("may be a heartbeat's; nothing is kept of an acknowledgement, nor if nothing is to be sent", async () => {
    const here = await start({});
    provider.answer = (request) =>
      provider.text(request).includes("loud") ? "Look at the disk." : "HEARTBEAT_OK";
    await here.post("/hooks/wake", { text: "nothing much" });
    await here.until(async () => provider.requests.length === 1);
    const { body } = await here.post("/hooks/agent", { message: "x", wakeMode: "next-heartbeat" });
    expect((await ended(here, body.runId)).delivery.status).toBe("skipped");
    await here.post("/hooks/wake", { text: "a loud noise" });
    const [kept] = await here.until(async () => {
      const all = await deliveries(here);
      return all.length > 0 && all;
    });
    expect(kept).toMatchObject({
      status: "no_route",
      channel: "last",
      to: null,
      error: { code: "no_route" },
    });
    expect((await here.admin(`/admin/v1/runs/${kept.runId}`)).body.run).toMatchObject({
      kind: "heartbeat",
      delivery: "no_route",
    });
  });

  it("is in the receipt of a callback", async () => {
    const receipts: { run: { delivery: object } }[] = [];
    const { url, close } = await serve(({ body }) => {
      receipts.push(body as (typeof receipts)[number]);
      return { status: 200 };
    });
    onTestFinished(close);
    const secret = Buffer.from("a secret of thirty-two characters").toString("base64");
    const here = await start(
      {},
      { callbackHosts: ["127.0.0.1"], mappings: [{ ...MAPPING, callback: { url, secret } }] },
    );
    await order(here, 1);
    await here.until(async () => receipts.length === 1);
    expect(receipts[0]?.run.delivery).toMatchObject({
      status: "no_route",
      channel: null,
      to: null,
      error: { code: "no_route" },
    });
  });
});

describe("the config", () => {
  it("warns of each mapping whose replies can have no route, and of a heartbeat that is sent to a named place", async () => {
    const { agents, ...config } = configOf({}, { presets: ["uptime-kuma"] }) as {
      agents: { defaults: object };
    };
    const heartbeat = { channel: "rooms" };
    world = await createWorld({
      dir,
      files: {
        "plugins/rooms.ts": roomsPlugin("rooms"),
        "mappings/more.json5": {
          id: "more",
          mappings: [{ ...MAPPING, id: "more", match: { path: "more" } }],
        },
      },
      config: { ...config, agents: { ...agents, defaults: { ...agents.defaults, heartbeat } } },
      start: false,
    });
    const warnings = world.gateway
      .status()
      .warnings.filter(({ message }) => message.startsWith("replies have no route"));
    expect(warnings.map(({ path }) => path)).toEqual([
      "hooks.mappings[0].channel",
      "mappings/more.json5: mappings[0].channel",
      "preset uptime-kuma: mappings[0].channel",
      "preset uptime-kuma: mappings[1].channel",
      "preset uptime-kuma: mappings[2].channel",
      "preset uptime-kuma: mappings[3].channel",
      "agents.defaults.heartbeat.channel",
    ]);
    const validated = await rouse("config validate");
    expect(validated.code).toBe(0);
    // The name of the file goes to the place before the path.
    for (const { path, message } of warnings)
      expect(validated.out).toContain(
        `  ${path.replace("mappings/more.json5: ", "")}: ${message}\n`,
      );
  });

  it("says so in the log at the start and after a reload, and to a caller", async () => {
    const here = await start({});
    const logged = () =>
      here.logged.filter((line) => line.includes("replies have no route: the owner")).length;
    expect(logged()).toBe(1);
    await reconfigure(here, { defaultTo: "lobby" });
    expect(logged()).toBe(1);
    await reconfigure(here, {});
    expect(logged()).toBe(2);
    const post = async (deliver: boolean) =>
      (await here.post("/hooks/agent", { message: "x", deliver, wakeMode: "next-heartbeat" })).body
        .warnings;
    expect(await post(true)).toEqual([expect.stringContaining("replies have no route: the owner")]);
    expect(await post(false)).toBeUndefined();
  });
});
