import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";

const OWN = "own-path-token-0123456789";
const OLD = "old-path-token-0123456789";
const basic = (user: string, password: string) => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`,
});
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const hook = (path: string, more: object = {}) => ({
  id: path,
  match: { path },
  messageTemplate: "got {{n}}",
  ...more,
});

let world: World;
beforeAll(async () => {
  world = await createWorld({
    workers: false,
    config: {
      gateway: { trustedProxies: ["127.0.0.1"] },
      hooks: {
        mappings: [
          hook("own", { auth: { token: [OWN, OLD] } }),
          hook("basic", { auth: { user: "grafana", password: "a-long-password-0123" } }),
          hook("latin", { auth: { user: "müller", password: "a-löng-password-0123" } }),
          hook("plus", { auth: { token: ["own+path/token=0123", "own path token 0123"] } }),
          hook("near", { allowIps: ["10.1.0.0/16", "2001:db8::/32"] }),
          hook("poll", {
            methods: ["POST", "GET"],
            dedupeKey: "{{query.id}}",
            messageTemplate: "poll {{payload.id}} {{headers.x-kept}}",
          }),
          { match: { path: "name/less" }, messageTemplate: "m", dedupeKey: "{{n}}" },
          { id: "anywhere", match: { payload: { kind: "any" } }, messageTemplate: "any" },
          hook("shown", {
            keepHeaders: ["x-shown"],
            keepQuery: ["page"],
            messageTemplate: "{{ $string(headers) }} {{ $string(query) }}",
          }),
        ],
      },
    },
  });
});
afterAll(() => world.stop());

describe("a path with a token of its own", () => {
  it("accepts each of its tokens, and the hook token has no effect there", async () => {
    expect((await world.post("/hooks/own", { n: 1 }, bearer(OWN))).status).toBe(202);
    expect((await world.post("/hooks/own", { n: 1 }, bearer(OLD))).status).toBe(202);
    const refused = await world.post("/hooks/own", { n: 1 });
    expect([refused.status, refused.body.error.code]).toEqual([401, "unauthorized"]);
    expect((await world.post("/hooks/wake", { text: "x" }, bearer(OWN))).status).toBe(401);
  });

  it("shows its receipts to its own credential and the operator, not to the hook token", async () => {
    const { body } = await world.post("/hooks/own", { n: 1 }, bearer(OWN));
    for (const path of [`/hooks/runs/${body.runId}`, `/hooks/events/${body.eventId}`]) {
      expect((await world.get(path, bearer(OLD))).status).toBe(200);
      expect((await world.get(path, bearer(world.gateway.operatorToken))).status).toBe(200);
      expect((await world.get(path)).status).toBe(404);
    }
  });

  it("tries mappings without a path only for the hook token", async () => {
    expect((await world.post("/hooks/other", { kind: "any" })).body).toMatchObject({
      mapping: "anywhere",
    });
    expect((await world.post("/hooks/own", { kind: "any" }, bearer(OWN))).body).toMatchObject({
      mapping: "own",
    });
  });
});

describe("a path with user and password", () => {
  it("accepts them and nothing else", async () => {
    const right = await world.post(
      "/hooks/basic",
      { n: 1 },
      basic("grafana", "a-long-password-0123"),
    );
    expect(right.status).toBe(202);
    expect(
      (await world.get(`/hooks/runs/${right.body.runId}`, basic("grafana", "a-long-password-0123")))
        .status,
    ).toBe(200);
    expect(
      (
        await world.get(
          `/hooks/runs/${right.body.runId}`,
          basic("grafana", "another-password-0123"),
        )
      ).status,
    ).toBe(404);
    for (const headers of [
      basic("grafana", "wrong"),
      basic("admin", "a-long-password-0123"),
      bearer(TOKEN),
      { authorization: "Basic !!!" },
      {},
    ])
      expect(
        (await world.post("/hooks/basic", { n: 1 }, { authorization: "", ...headers })).status,
      ).toBe(401);
  });
});

describe("a credential with characters that are encoded", () => {
  it.each<BufferEncoding>(["utf8", "latin1"])("user and password: taken in %s", async (charset) => {
    const pair = Buffer.from("müller:a-löng-password-0123", charset).toString("base64");
    const headers = { authorization: `Basic ${pair}` };
    expect((await world.post("/hooks/latin", { n: 1 }, headers)).status).toBe(202);
  });

  it.each([
    "own+path/token=0123",
    "own%2Bpath%2Ftoken%3D0123",
    "own+path+token+0123",
    "own%20path%20token%200123",
  ])("a token in the query: taken as %s", async (token) => {
    const path = `/hooks/plus?token=${token}`;
    expect((await world.post(path, { n: 1 }, { authorization: "" })).status).toBe(202);
  });
});

describe("a path for some addresses", () => {
  const from = (address: string) =>
    world.post("/hooks/near", { n: 1 }, { "x-forwarded-for": address });

  it.each([
    ["10.1.2.3", 202],
    ["::ffff:10.1.2.3", 202],
    ["2001:db8::7", 202],
    ["10.2.0.1", 403],
    // Entries that a caller writes before the proxy's own are ignored.
    ["10.1.2.3, 203.0.113.9", 403],
    ["203.0.113.9, 10.1.2.3", 202],
    // With ports, as Azure's gateways write them.
    ["203.0.113.9:51008, 10.1.2.3:51008", 202],
    ["[2001:db8::7]:443", 202],
    ["10.1.2.3, 203.0.113.9:51008", 403],
  ])("from %s answers %i", async (address, status) => {
    const answer = await from(address);
    expect(answer.status).toBe(status);
    if (status === 403) expect(answer.body.error.code).toBe("address_not_allowed");
  });

  it("ignores forwarded addresses if no proxy is trusted", async () => {
    const own = await createWorld({
      workers: false,
      config: { hooks: { mappings: [hook("near", { allowIps: ["10.1.0.0/16"] })] } },
    });
    expect(
      (await own.post("/hooks/near", { n: 1 }, { "x-forwarded-for": "10.1.2.3" })).status,
    ).toBe(403);
    await own.stop();
  });
});

describe("a path that takes GET", () => {
  it("makes the query the payload, once for each key, without the token", async () => {
    const first = await world.get("/hooks/poll?id=7&token=not-kept", {
      ...bearer(TOKEN),
      "x-kept": "yes",
      "x-api-key": "canary-key",
    });
    expect([first.status, first.body.mapping]).toEqual([202, "poll"]);
    const again = await world.get("/hooks/poll?id=7");
    expect(again.body).toMatchObject({ runId: first.body.runId, duplicate: true });
    const { body } = await world.admin(`/admin/v1/runs/${first.body.runId}`);
    expect(JSON.stringify(body)).toContain("poll ");
    expect(JSON.stringify(body)).not.toMatch(/canary-key|not-kept/);
  });

  it("answers 405 with what it takes, other paths with POST alone", async () => {
    const put = await world.gateway.fetch(
      new Request("http://127.0.0.1/hooks/poll", { method: "PUT" }),
    );
    expect([put.status, put.headers.get("allow")]).toEqual([405, "GET, POST"]);
    const get = await world.get("/hooks/own?n=1");
    expect([get.status, get.body.error.code, get.headers.get("allow")]).toEqual([
      405,
      "method_not_allowed",
      "POST",
    ]);
  });
});

describe("what carried a credential", () => {
  it("is neither rendered nor kept; the rest is", async () => {
    const secrets = {
      "x-hub-signature-256": "sha256=canary-sig",
      cookie: "canary-cookie",
      "x-auth-token": "canary-header",
      "x-shown": "plain-value",
    };
    const answer = await world.post(
      "/hooks/shown?api_key=canary-query&page=2",
      { n: 1 },
      { authorization: `Bearer ${TOKEN}`, ...secrets },
    );
    const event = await world.admin(`/admin/v1/events/${answer.body.eventId}`);
    const run = await world.admin(`/admin/v1/runs/${answer.body.runId}`);
    const seen = JSON.stringify([event.body, run.body]);
    expect(seen).toContain("plain-value");
    expect(seen).toContain("page");
    expect(seen).not.toMatch(/canary/);
    expect(seen).not.toContain(TOKEN);
  });

  it("and an x-request-id of the caller is not taken over", async () => {
    const answer = await world.post(
      "/hooks/shown",
      { n: 1 },
      { authorization: `Bearer ${TOKEN}`, "x-request-id": "mine" },
    );
    expect(answer.headers.get("x-request-id")).toBe(answer.body.eventId);
  });
});

describe("paths that cannot be had", () => {
  const issuesOf = async (hooks: object, more: object = {}): Promise<string[]> => {
    try {
      const made = await createWorld({ start: false, config: { hooks, ...more } });
      await made.stop();
      return [];
    } catch (error) {
      return (error as { issues: { path: string; message: string }[] }).issues.map(
        (issue) => `${issue.path}: ${issue.message}`,
      );
    }
  };

  it.each([
    [
      { mappings: [hook("wake")] },
      "hooks.mappings[0].match.path: `wake` belongs to the interface itself",
    ],
    [{ mappings: [hook("events")] }, "hooks.mappings[0].match.path: `events` belongs"],
    [{ mappings: [hook("a b")] }, "hooks.mappings[0].match.path: use segments"],
    [
      {
        mappings: [
          hook("p", { auth: { token: OWN } }),
          { ...hook("p", { auth: { token: OLD } }), id: "q" },
        ],
      },
      "hooks.mappings[1].auth: differs from hooks.mappings[0].auth",
    ],
    [
      { mappings: [hook("p", { auth: { token: "short" } })] },
      "hooks.mappings[0].auth.token: must have at least 16 characters",
    ],
    [
      { mappings: [{ id: "x", auth: { token: OWN }, messageTemplate: "x" }] },
      "hooks.mappings[0].auth: belongs to a path",
    ],
    [{ mappings: [hook("p", { methods: ["GET"] })] }, "hooks.mappings[0].dedupeKey: is required"],
    [{ mappings: [hook("p", { allowIps: ["not an address"] })] }, "hooks.mappings[0].allowIps"],
    [{ path: "/" }, "hooks.path: must not be `/` alone"],
    [{ path: "/a*b" }, "hooks.path"],
    [{ path: "/admin/x" }, "hooks.path: lies under /admin"],
    [{ token: "short" }, "hooks.token: must have at least 16 characters"],
  ])("%j", async (hooks, message) => {
    const issues = await issuesOf(hooks);
    expect(issues.join("\n")).toContain(message);
  });

  it("the hook token differs from the gateway's", async () => {
    expect(await issuesOf({}, { gateway: { token: TOKEN } })).toEqual([
      "hooks.token: must differ from gateway.token",
    ]);
  });
});

it("the base path may be another one, written with or without slashes", async () => {
  const own = await createWorld({ workers: false, config: { hooks: { path: "in/hooks/" } } });
  const answer = await own.post("/in/hooks/agent", { message: "x" });
  expect([answer.status, answer.headers.get("location")]).toEqual([
    202,
    `/in/hooks/runs/${answer.body.runId}`,
  ]);
  expect((await own.get(`/in/hooks/runs/${answer.body.runId}`)).status).toBe(200);
  expect(
    (await own.gateway.fetch(new Request("http://127.0.0.1/hooks/agent", { method: "POST" })))
      .status,
  ).toBe(404);
  await own.stop();
});

it("a mapping without an id goes by its path in answers, receipts and lists", async () => {
  const { status, body } = await world.post("/hooks/name/less", { n: 1 });
  expect([status, body.mapping]).toEqual([202, "name/less"]);
  expect((await world.get(`/hooks/events/${body.eventId}`)).body.event).toMatchObject({
    mapping: "name/less",
  });
  const listed = await world.admin("/admin/v1/events?mapping=name/less");
  expect(listed.body.events.map(({ id }: { id: string }) => id)).toEqual([body.eventId]);
  expect((await world.post("/hooks/name/less", { n: 1 })).body).toMatchObject({
    runId: body.runId,
  });
});
