import type { IncomingHttpHeaders } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Webhook } from "standardwebhooks";
import { createHostList } from "../../src/core/http/address.ts";
import { createCallbackChannel } from "../../src/delivery/callback.ts";
import { serve } from "../channels/wire.ts";
import { createWorld, type Answer, type World } from "../e2e/world.ts";

const SECRET = `whsec_${Buffer.from("a secret of thirty-two characters").toString("base64")}`;

interface Got {
  headers: IncomingHttpHeaders;
  body: string;
}
let server: Awaited<ReturnType<typeof serve>>;
let got: Got[];
let answer: (n: number) => { status: number; headers?: Record<string, string> };
let port: string;
let world: World | undefined;

beforeEach(async () => {
  got = [];
  answer = () => ({ status: 204 });
  server = await serve(({ headers, bytes }) => {
    got.push({ headers, body: bytes.toString() });
    return answer(got.length);
  });
  ({ port } = new URL(server.url));
});
afterEach(async () => {
  await world?.stop();
  world = undefined;
  await server.close();
});

const hooks = (more: object = {}, host = "127.0.0.1") => ({
  callbackHosts: ["127.0.0.1"],
  mappings: [
    {
      id: "job",
      match: { path: "job" },
      messageTemplate: "{{text}}",
      callback: { url: `http://${host}:${port}/done?for=job`, secret: SECRET },
    },
  ],
  ...more,
});
const deliveryOf = async ({ body }: Answer) => {
  const here = world as World;
  const { run } = (await here.admin(`/admin/v1/runs/${body.runId}`)).body;
  return run.callbackId
    ? (await here.admin(`/admin/v1/deliveries/${run.callbackId}`)).body.delivery
    : undefined;
};
const settled = (posted: Answer, status: string) =>
  (world as World).until(async () => {
    const delivery = await deliveryOf(posted);
    return delivery?.status === status && delivery;
  });

describe("a callback", () => {
  it("continues the trace of the event", async () => {
    world = await createWorld({
      config: { hooks: hooks(), telemetry: { otlp: { url: `http://127.0.0.1:${port}` } } },
    });
    const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
    const posted = await world.post(
      "/hooks/job",
      { text: "work" },
      { traceparent: `00-${traceId}-00f067aa0ba902b7-01` },
    );
    await settled(posted, "delivered");
    const [receipt] = got.filter(({ headers }) => headers["webhook-id"] !== undefined);
    expect(receipt?.headers["traceparent"]).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
  });

  it("posts the receipt of the run, signed as Standard Webhooks wants it", async () => {
    world = await createWorld({ config: { hooks: hooks() } });
    const posted = await world.post("/hooks/job", { text: "work" });
    const delivery = await settled(posted, "delivered");
    expect(delivery).toMatchObject({
      channel: "callback",
      to: `http://127.0.0.1:${port}/done?for=job`,
    });
    const [{ headers, body }] = got as [Got];
    const verified = new Webhook(SECRET).verify(body, headers as Record<string, string>) as {
      run: Record<string, unknown>;
    };
    expect(verified).toMatchObject({
      ok: true,
      run: {
        id: posted.body.runId,
        status: "succeeded",
        reply: expect.stringContaining("[no model]"),
        delivery: { status: "pending" },
      },
    });
    expect(headers["webhook-id"]).toBe(delivery.id);
    expect(got).toHaveLength(1);
    // The reply's own delivery stays the one that the receipt tells of.
    const receipt = (await world.get(`/hooks/runs/${posted.body.runId}`)).body.run;
    expect(receipt.delivery.channel).toBe("console");
  });

  it("tells of a run that failed, and leaves out what receipts leave out", async () => {
    world = await createWorld({
      config: {
        hooks: { ...hooks(), receipts: "status" },
        agents: { defaults: { model: "local/x" } },
        models: {
          providers: {
            local: { type: "openai-compatible", baseUrl: `http://127.0.0.1:${port}/v1` },
          },
        },
      },
    });
    answer = (n) => ({ status: n === 1 ? 400 : 204 });
    const posted = await world.post("/hooks/job", { text: "work" });
    await settled(posted, "delivered");
    const { run } = JSON.parse(got.find(({ headers }) => headers["webhook-id"])?.body ?? "") as {
      run: Record<string, unknown>;
    };
    expect(run).toMatchObject({ status: "failed", error: { code: "provider_refused" } });
    expect(Object.keys(run)).not.toContain("reply");
  });

  it("is tried again with the same id until it is taken", async () => {
    answer = (n) => (n < 3 ? { status: 503, headers: { "retry-after": "0.05" } } : { status: 200 });
    world = await createWorld({ config: { hooks: hooks() } });
    await settled(await world.post("/hooks/job", { text: "work" }), "delivered");
    expect(new Set(got.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    expect(got).toHaveLength(3);
  });

  it("is tried again at the time that the address names", async () => {
    answer = () => ({
      status: 503,
      headers: { "retry-after": "Thu, 01 Jan 1970 00:10:00 GMT" },
    });
    const channel = createCallbackChannel({
      getCallback: () => ({ url: `http://127.0.0.1:${port}/`, secret: SECRET }),
      hosts: () => ["127.0.0.1"],
      clock: { now: () => 0 },
    });
    const message = { to: "x", text: "{}", thread: "job", idempotencyKey: "dlv_1.0" };
    expect(await channel.send(message, new AbortController().signal)).toMatchObject({
      status: "retry",
      afterMs: 600_000,
    });
  });

  it("is given up where the address refuses it, and follows no redirect", async () => {
    answer = (n) =>
      n === 1
        ? { status: 302, headers: { location: `http://127.0.0.1:${port}/elsewhere` } }
        : { status: 410 };
    world = await createWorld({ config: { hooks: hooks() } });
    const moved = await settled(await world.post("/hooks/job", { text: "work" }), "failed");
    expect(moved.error.message).toBe("the address answered 302: redirects are not followed");
    const gone = await settled(await world.post("/hooks/job", { text: "work" }), "failed");
    expect(gone.error.message).toBe("the address answered 410");
    expect(got).toHaveLength(2);
  });

  it("never goes to a private address that is not listed as such, whatever its name", async () => {
    world = await createWorld({
      config: { hooks: { ...hooks({}, "localhost"), callbackHosts: ["localhost"] } },
    });
    const refused = await settled(await world.post("/hooks/job", { text: "work" }), "failed");
    expect(refused.error.message).toMatch(
      /private address, which hooks\.callbackHosts does not list/,
    );
    expect(got).toEqual([]);
    await world.stop();
    world = await createWorld({
      config: {
        hooks: { ...hooks({}, "localhost"), callbackHosts: ["localhost", "127.0.0.0/8", "::1"] },
      },
    });
    await settled(await world.post("/hooks/job", { text: "work" }), "delivered");
  });

  it("is a config error to another host, or with a secret that is none; a request cannot set one", async () => {
    const load = (more: object) => createWorld({ start: false, config: { hooks: hooks(more) } });
    await expect(load({ callbackHosts: ["example.com"] })).rejects.toThrow(
      /mappings\[0\]\.callback\.url: goes to a host that is not in hooks\.callbackHosts/,
    );
    const weak = {
      id: "a",
      match: { path: "a" },
      messageTemplate: "x",
      callback: { url: "http://127.0.0.1/", secret: "not base64!" },
    };
    await expect(load({ mappings: [weak] })).rejects.toThrow(/callback\.secret: must be base64/);
    world = await load({});
    const posted = await world.post("/hooks/agent", {
      message: "x",
      callback: { url: "http://127.0.0.1/" },
    });
    expect(posted.body.warnings).toEqual(['the field "callback" is not known and was ignored']);
  });
});

describe("the hosts of callbacks", () => {
  it("are names, names below a name, addresses and ranges", () => {
    const list = createHostList(["Example.com", "*.corp.example", "10.1.0.0/16", "::1"]);
    const allowed = [
      "example.com",
      "EXAMPLE.COM",
      "a.corp.example",
      "a.b.corp.example",
      "10.1.2.3",
      "[::1]",
    ];
    const refused = [
      "corp.example",
      "notexample.com",
      "a.example.com",
      "xcorp.example",
      "10.2.0.1",
      "93.184.215.14",
      "[::2]",
      "",
    ];
    expect([
      allowed.filter((host) => !list.allows(host)),
      refused.filter((host) => list.allows(host)),
    ]).toEqual([[], []]);
  });

  it("lead to no private address that is not listed", () => {
    const list = createHostList(["example.com", "10.1.0.0/16"]);
    const wanted = ["93.184.215.14", "10.1.2.3", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"];
    const priv =
      "127.0.0.1 10.0.0.1 172.16.5.4 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 198.18.0.1 224.0.0.1 255.255.255.255 ::1 :: fe80::1 fc00::1 fd12::1 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::7f00:1 2002:7f00:1::";
    expect([
      wanted.filter((address) => !list.allowsAddress(address)),
      priv.split(" ").filter((address) => list.allowsAddress(address)),
    ]).toEqual([[], []]);
  });

  it("are looked at again when it is sent", async () => {
    const channel = createCallbackChannel({
      getCallback: () => ({ url: `http://127.0.0.1:${port}/`, secret: SECRET }),
      hosts: () => [],
      clock: { now: () => 0 },
    });
    const message = { to: "x", text: "{}", thread: "job", idempotencyKey: "dlv_1.0" };
    expect(await channel.send(message, new AbortController().signal)).toEqual({
      status: "failed",
      reason: "its host is not in hooks.callbackHosts",
    });
    expect(got).toEqual([]);
  });
});
