import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type Answer, type World } from "../e2e/world.ts";

const SECRET = "a-signing-secret-0123456789";
const FRESH = "a-fresh-signing-secret-0123456789";
const hmac = (text: string, secret = SECRET, algorithm = "sha256"): string =>
  createHmac(algorithm, secret).update(text).digest("hex");
const keys = generateKeyPairSync("ed25519");
const PUBLIC_KEY = keys.publicKey
  .export({ type: "spki", format: "der" })
  .subarray(-32)
  .toString("hex");

const hook = (path: string, auth: object, more: object = {}) => ({
  id: path,
  match: { path },
  auth,
  messageTemplate: "got {{ $string(payload) }}",
  ...more,
});

let world: World;
beforeAll(async () => {
  world = await createWorld({
    workers: false,
    config: {
      hooks: {
        mappings: [
          hook("gh", { scheme: "github", secret: [FRESH, SECRET] }),
          hook("slack", { scheme: "slack", secret: SECRET }),
          hook("zoom", { scheme: "zoom", secret: SECRET }),
          hook("discord", { scheme: "discord", secret: PUBLIC_KEY }),
          hook("dropbox", { scheme: "dropbox", secret: SECRET }),
          hook("meta", { scheme: "meta", secret: SECRET, verifyToken: "verify-me-0123456789" }),
          hook("graph", { scheme: "microsoft-graph", secret: SECRET }),
          hook("pd", { scheme: "pagerduty", secret: SECRET }),
          hook("notion", { scheme: "notion", secret: "pending" }),
          hook("own", {
            scheme: {
              algorithm: "hmac-sha512",
              signature: { header: "x-own", prefix: "k=" },
              signed: "{header:x-when}|{raw}",
              handshakes: [
                {
                  signed: true,
                  when: { method: "POST", body: { hello: "*" } },
                  respond: { headers: { "x-hello": "{{echo}}" }, echo: { body: "hello" } },
                },
              ],
            },
            secret: SECRET,
          }),
        ],
      },
    },
  });
});
afterAll(() => world.stop());

/** Posts as a sender does: without the hook token. */
const send = (
  path: string,
  body: string | object,
  headers: Record<string, string> = {},
): Promise<Answer> => world.post(path, body, { authorization: "", ...headers });
const github = (body: string, secret = SECRET, more: Record<string, string> = {}) =>
  send("/hooks/gh", body, { "x-hub-signature-256": `sha256=${hmac(body, secret)}`, ...more });
const slack = (body: string, time = Math.floor(Date.now() / 1000)) =>
  send("/hooks/slack", body, {
    "x-slack-request-timestamp": String(time),
    "x-slack-signature": `v0=${hmac(`v0:${time}:${body}`)}`,
  });

describe("a hook that its sender signs", () => {
  it("is authenticated by its signature alone, and kept without it", async () => {
    const answer = await github('{"n":1}');
    expect([answer.status, answer.body.mapping]).toEqual([202, "gh"]);
    const event = (await world.admin(`/admin/v1/events/${answer.body.eventId}`)).body.event;
    expect(event.credential).toBe("path:gh");
    expect(JSON.stringify(event)).not.toContain(hmac('{"n":1}'));
    // A GET cannot be signed, so the receipt is for the operator only.
    expect((await world.get(`/hooks/events/${answer.body.eventId}`)).status).toBe(404);
    expect(
      (
        await world.get(`/hooks/events/${answer.body.eventId}`, {
          authorization: `Bearer ${world.gateway.operatorToken}`,
        })
      ).status,
    ).toBe(200);
  });

  it("is refused without, with a wrong one, and by the hook token; nothing of it is kept and the answer says not why", async () => {
    const before = (await world.admin("/admin/v1/events?limit=100")).body.events.length;
    const answers = [
      await send("/hooks/gh", '{"n":2}'),
      await github('{"n":2}', "another-secret-0123456789"),
      await world.post("/hooks/gh", { n: 2 }),
      await send("/hooks/gh", '{"n":3}', { "x-hub-signature-256": `sha256=${hmac('{"n":2}')}` }),
      await slack('{"n":2}', Math.floor(Date.now() / 1000) - 600),
    ];
    for (const { status, body } of answers)
      expect([status, body.error]).toEqual([
        401,
        { code: "unauthorized", message: "the signature is missing, wrong or too old" },
      ]);
    expect((await world.admin("/admin/v1/events?limit=100")).body.events).toHaveLength(before);
    const reasons = (await world.admin("/admin/v1/refusals")).body.refusals.map(
      (refusal: { reason: string }) => refusal.reason,
    );
    expect(reasons).toEqual(
      expect.arrayContaining([
        "signature_no_signature",
        "signature_wrong_signature",
        "signature_stale_timestamp",
      ]),
    );
  });

  it("is done once, whatever its unsigned headers say", async () => {
    const first = await github('{"n":"once"}', SECRET, { "x-github-delivery": "1" });
    const again = await github('{"n":"once"}', SECRET, {
      "x-github-delivery": "2",
      "idempotency-key": "other",
    });
    expect(again.body).toEqual(first.body);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    const byId = await slack('{"event_id":"Ev9","n":1}');
    expect((await slack('{"event_id":"Ev9","n":1,"retry":true}')).body).toEqual(byId.body);
  });

  it("tells which secret fitted last, in doctor and metrics", async () => {
    await github('{"n":"old"}', SECRET);
    const doctor = async (): Promise<string> =>
      (await world.admin("/admin/v1/doctor")).body.checks.find(
        (check: { id: string }) => check.id === "signatures",
      ).message;
    const pending = await doctor();
    expect(pending).toMatch(/"gh" was signed last with secret 2 of 2|has no secret yet/);
    await github('{"n":"new"}', FRESH);
    const metrics = String((await world.admin("/metrics")).body);
    expect(metrics).toMatch(/rouse_signatures_total\{path="gh",secret="0"\} 1/);
    expect(metrics).toMatch(/rouse_signatures_total\{path="gh",secret="1"\} [3-9]/);
  });

  it("may have a body of any kind, of which the bytes are signed as they came", async () => {
    const form = "payload=%7B%22n%22%3A%22form%22%7D";
    expect(
      (await github(form, SECRET, { "content-type": "application/x-www-form-urlencoded" })).status,
    ).toBe(202);
    const signedButMalformed = await github("{", SECRET);
    expect([signedButMalformed.status, signedButMalformed.body.error.code]).toEqual([
      400,
      "invalid_json",
    ]);
    // It was authenticated, so it is kept.
    expect(
      (await world.admin(`/admin/v1/events/${signedButMalformed.body.requestId}`)).body.event
        .outcome,
    ).toBe("rejected");
    expect((await github("x".repeat(25 * 2 ** 20 + 1))).status).toBe(413);
  });

  it("may be signed in a way of one's own", async () => {
    const signed = (body: string) => ({
      "x-when": "7",
      "x-own": `k=${hmac(`7|${body}`, SECRET, "sha512")}`,
    });
    expect((await send("/hooks/own", '{"n":1}', signed('{"n":1}'))).status).toBe(202);
    expect(
      (await send("/hooks/own", '{"n":1}', { ...signed('{"n":1}'), "x-when": "8" })).status,
    ).toBe(401);
    const hello = await send("/hooks/own", '{"hello":"there"}', signed('{"hello":"there"}'));
    expect([hello.status, hello.headers.get("x-hello"), hello.body]).toEqual([
      200,
      "there",
      "there",
    ]);
    const injected = await send(
      "/hooks/own",
      '{"hello":"a\\r\\nset-cookie: x"}',
      signed('{"hello":"a\\r\\nset-cookie: x"}'),
    );
    expect(injected.headers.get("set-cookie")).toBeNull();
  });
});

describe("handshakes, answered without making work", () => {
  let before = 0;
  const events = async (): Promise<number> =>
    (await world.admin("/admin/v1/events?limit=500")).body.events.length;
  beforeAll(async () => {
    before = await events();
  });
  afterEach(async () => expect(await events()).toBe(before));
  const plain = (answer: Answer) => [
    answer.status,
    answer.body,
    answer.headers.get("content-type"),
    answer.headers.get("x-content-type-options"),
  ];

  it("a JSON field is given back, once the signature fits", async () => {
    const body = '{"type":"url_verification","challenge":"3eZbrw1aB"}';
    expect(plain(await slack(body))).toEqual([
      200,
      "3eZbrw1aB",
      "text/plain; charset=utf-8",
      "nosniff",
    ]);
    expect((await send("/hooks/slack", body)).status).toBe(401);
  });

  it("a JSON field is signed and given back", async () => {
    const time = String(Math.floor(Date.now() / 1000));
    const body =
      '{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}';
    const answer = await send("/hooks/zoom", body, {
      "x-zm-request-timestamp": time,
      "x-zm-signature": `v0=${hmac(`v0:${time}:${body}`)}`,
    });
    expect([answer.status, answer.body]).toEqual([
      200,
      { plainToken: "qgg8vlvZRS6UYooatFL8Aw", encryptedToken: hmac("qgg8vlvZRS6UYooatFL8Aw") },
    ]);
  });

  it("a ping is answered as its sender wants it, and a bad test signature with 401", async () => {
    const discord = (body: string, good = true) => {
      const time = String(Math.floor(Date.now() / 1000));
      const signature = sign(
        null,
        Buffer.from(time + (good ? body : "x")),
        keys.privateKey,
      ).toString("hex");
      return send("/hooks/discord", body, {
        "x-signature-timestamp": time,
        "x-signature-ed25519": signature,
      });
    };
    expect((await discord('{"type":1,"id":"1","application_id":"2"}')).body).toEqual({ type: 1 });
    expect((await discord('{"version":1,"application_id":"2","type":0}')).status).toBe(204);
    expect((await discord('{"type":1,"id":"1"}', false)).status).toBe(401);
    const ping = '{"event":{"id":"01","event_type":"pagey.ping"}}';
    expect(
      (await send("/hooks/pd", ping, { "x-pagerduty-signature": `v1=${hmac(ping)}` })).status,
    ).toBe(200);
    const zen = '{"zen":"Keep it logically awesome.","hook_id":1,"hook":{}}';
    expect((await github(zen)).body).toEqual({ ok: true });
  });

  it("a parameter of a GET is given back, in safe characters alone and not too long", async () => {
    expect(plain(await world.get("/hooks/dropbox?challenge=abc123", {}))).toEqual([
      200,
      "abc123",
      "text/plain; charset=utf-8",
      "nosniff",
    ]);
    for (const challenge of ["<script>", "a".repeat(600), "a%0d%0ab"])
      expect((await world.get(`/hooks/dropbox?challenge=${challenge}`, {})).status).toBe(405);
    expect((await world.get("/hooks/dropbox", {})).status).toBe(405);
    const put = await world.gateway.fetch(
      new Request("http://127.0.0.1/hooks/dropbox?challenge=a", { method: "PUT" }),
    );
    expect([put.status, put.headers.get("allow")]).toEqual([405, "GET, POST"]);
    expect((await world.admin("/admin/v1/events?path=dropbox")).body.events).toEqual([]);
  });

  it("a parameter is given back only with the verify token", async () => {
    const ask = (token: string) =>
      world.get(
        `/hooks/meta?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=${token}`,
        {},
      );
    expect(plain(await ask("verify-me-0123456789"))).toEqual([
      200,
      "1158201444",
      "text/plain; charset=utf-8",
      "nosniff",
    ]);
    for (const token of ["wrong", "", SECRET]) expect((await ask(token)).status).toBe(405);
  });

  it("a parameter of a POST is given back before anything is read", async () => {
    // As Microsoft Graph writes it, with the spaces as `+` or as `%20`.
    const token =
      "Validation: Testing client application reachability for subscription Request-Id: 522a8e7e-096a";
    for (const written of [encodeURIComponent(token), token.replaceAll(" ", "+")])
      expect(plain(await send(`/hooks/graph?validationToken=${written}`, ""))).toEqual([
        200,
        token,
        "text/plain; charset=utf-8",
        "nosniff",
      ]);
  });

  it("not too often from one address", async () => {
    let last = 200;
    for (let n = 0; n < 30; n++)
      last = (await world.get("/hooks/dropbox?challenge=abc", {})).status;
    expect(last).toBe(429);
  });
});
