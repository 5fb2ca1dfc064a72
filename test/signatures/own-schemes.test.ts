import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import JSON5 from "json5";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { authSchema, type SchemeAuth } from "../../src/config/schema/mapping.ts";
import type { Issue } from "../../src/core/errors.ts";
import { createVerifiers } from "../../src/intake/signatures/verifiers.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { SCHEMES } from "../mapping/world.ts";

const SECRET = "a-signing-secret-0123456789";
const hmac = (text: string): string => createHmac("sha256", SECRET).update(text).digest("hex");

const open = (scheme: object, more: object = {}): Promise<World> =>
  createWorld({
    start: false,
    workers: false,
    config: {
      gateway: { publicUrl: "https://hooks.example.com" },
      hooks: {
        mappings: [
          {
            id: "own",
            match: { path: "own" },
            auth: { secret: SECRET, scheme, ...more },
            messageTemplate: "got {{n}}",
          },
        ],
      },
    },
  });
/** The issues of a config with the scheme. */
const issuesOf = (scheme: object, more: object = {}): Issue[] =>
  createVerifiers(
    [
      {
        path: "own",
        auth: authSchema.parse({ secret: SECRET, scheme, ...more }) as SchemeAuth,
        at: "hooks.mappings[0].auth",
      },
    ],
    SCHEMES,
    "https://hooks.example.com",
    fetch,
  ).issues;

const plain = { algorithm: "hmac-sha256", signature: { header: "x-own" } };
const at = (place: object, more: object = {}) => ({ timestamp: { at: place, ...more } });
const inBody = {
  algorithm: "hmac-sha256",
  signature: { body: "signature.signature" },
  ...at({ body: "signature.timestamp" }),
  id: { body: "signature.token" },
  signed: "{timestamp}{id}",
};

describe("a scheme of one's own proves itself when the config is loaded", () => {
  it.each([
    [{ ...plain, signed: "{timestamp}.{raw}" }, "no `timestamp` says where it stands"],
    [{ ...plain, signed: "{id}.{raw}" }, "no `id` says where it stands"],
    [{ ...plain, signature: { body: "signature" } }, "no body can have its own signature in it"],
    [
      { ...plain, ...at({ header: "x-own", prefix: "t=" }), signature: { header: "x-own" } },
      "no time of that `unit` is found where `timestamp.at` says",
    ],
    [{ ...plain, ...at({ header: "x-own", split: ",", prefix: "t=" }) }, "does not verify"],
    [
      {
        ...plain,
        handshakes: [{ signed: true, when: { method: "POST", headers: { "x-own": "*" } } }],
      },
      "a handshake answers every request of the sender",
    ],
  ])("%j is an error with its reason", (scheme, message) => {
    expect(issuesOf(scheme)).toMatchObject([
      { path: "hooks.mappings[0].auth.scheme", message: expect.stringContaining(message) },
    ]);
  });

  it.each([
    plain,
    inBody,
    { ...plain, signed: "{timestamp}.{raw}", ...at({ body: "at" }) },
    { ...plain, signed: "{timestamp}.{raw}", ...at({ body: "meta.at" }, { unit: "iso8601" }) },
    { ...plain, signed: "{timestamp}.{raw}", ...at({ header: "x-at" }, { unit: "iso8601" }) },
    { ...plain, signed: "{timestamp}.{raw}", ...at({ header: "x-at", prefix: "t=" }) },
    { ...plain, signed: "{method} {path} {url} {raw}" },
    { ...plain, signed: "{url}", bodyHash: { query: "hash" } },
    { algorithm: "equals", signature: { query: "key" } },
    { algorithm: "equals", signature: { body: "list[].state" } },
    { algorithm: "jwt-hs256", signature: { header: "authorization" } },
  ])("%j verifies", (scheme) => {
    expect([issuesOf(scheme), issuesOf(scheme, { secret: "pending" })]).toEqual([[], []]);
  });

  it("a place in the body is read whole", () => {
    const scheme = { ...plain, id: { body: "id", prefix: "x" } };
    const { error } = authSchema.safeParse({ secret: SECRET, scheme });
    expect(error?.message).toContain("is read whole");
  });

  it("a time and an id inside the body are part of the signed text", async () => {
    const world = await open(inBody);
    const send = (timestamp: number, change: object = {}) => {
      const token = "a-token";
      const signature = {
        timestamp: String(timestamp),
        token,
        signature: hmac(`${timestamp}${token}`),
      };
      const body = { n: 1, signature: { ...signature, ...change } };
      return world.post("/hooks/own", body, { authorization: "" });
    };
    const now = Math.floor(Date.now() / 1000);
    const sent = await send(now);
    expect([sent.status, (await send(now)).body]).toEqual([202, sent.body]);
    for (const answer of [
      send(now - 301),
      send(now, { token: "b" }),
      send(now, { timestamp: now - 1 }),
    ])
      expect((await answer).status).toBe(401);
    await world.stop();
  });
});

it("signatures: a signed time may be of any time zone", async () => {
  const scheme = { ...plain, signed: "{raw}{timestamp}" };
  const world = await open({ ...scheme, ...at({ header: "x-at" }, { unit: "iso8601" }) });
  const send = (time: string) => {
    const body = '{"n":1}';
    const headers = { authorization: "", "x-at": time, "x-own": hmac(body + time) };
    return world.post("/hooks/own", body, headers);
  };
  const local = (minutes: number): string =>
    new Date(Date.now() + minutes * 60_000).toISOString().replace("Z", "-07:00");
  const statuses = [local(-7 * 60), local(0), "now"].map(async (time) => (await send(time)).status);
  expect(await Promise.all(statuses)).toEqual([202, 401, 401]);
  await world.stop();
});

const handshake = (when: object, more: object = {}) => ({
  signed: false,
  when: { method: "GET", ...when },
  ...more,
});
const signed = (when: object, more: object = {}) => ({ ...handshake(when, more), signed: true });
const challenge = { query: { challenge: "*" } };
const posted = { method: "POST", body: { challenge: "*" } };
const echoed = { respond: { echo: { body: "challenge" } } };

describe("a handshake that can never be reached is an error when the config is loaded", () => {
  it.each([
    ["a body of a GET", [handshake({ body: { a: "*" } })], 0, "a GET has no body"],
    ["an echo of a HEAD's body", [handshake({ method: "HEAD" }, echoed)], 0, "a HEAD has no body"],
    ["a signed OPTIONS", [signed({ method: "OPTIONS" })], 0, "use `signed: false`"],
    [
      "a signed one while nothing is signed",
      [signed({ ...posted, pendingSecret: true })],
      0,
      "while the secret is pending",
    ],
    [
      "one behind another of the same requests",
      [handshake(challenge), handshake({ query: { challenge: "*", mode: "x" } })],
      1,
      "an earlier handshake",
    ],
    [
      "a signed one behind an unsigned one",
      [signed({ ...posted, query: { a: "1" } }), handshake(posted)],
      0,
      "an earlier handshake",
    ],
    ["one that takes all", [signed({ method: "POST" })], 0, "answers every request"],
    [
      "one that signs what anyone posts",
      [handshake(posted, { respond: { hmac: { of: { body: "challenge" } } } })],
      0,
      "without a signature a POST can only be echoed",
    ],
  ])("%s", (_name, handshakes, index, message) => {
    expect(issuesOf({ ...plain, handshakes })).toMatchObject([
      {
        path: `hooks.mappings[0].auth.scheme.handshakes[${index}]`,
        message: expect.stringContaining(message),
      },
    ]);
  });

  it("and others are not", () => {
    const handshakes = [
      handshake({ query: { challenge: "*", mode: "x" } }),
      handshake(challenge),
      handshake({ method: "HEAD" }),
      handshake({ method: "OPTIONS", headers: { "x-origin": "*" } }),
      handshake({ ...posted, bodyOnly: true }, echoed),
      signed(posted, echoed),
      handshake({ ...posted, pendingSecret: true, body: { token: "*" } }),
    ];
    expect(issuesOf({ ...plain, handshakes })).toEqual([]);
  });
});

describe("handshakes of a scheme of one's own", () => {
  const handshakes = [
    handshake({ method: "HEAD" }, { respond: { type: "none" } }),
    handshake(
      { method: "OPTIONS", headers: { "WebHook-Request-Origin": "*" } },
      {
        respond: {
          type: "none",
          echo: { header: "webhook-request-origin" },
          headers: { "webhook-allowed-origin": "{{echo}}" },
        },
      },
    ),
    handshake(
      { ...posted, bodyOnly: true },
      { respond: { ...echoed.respond, type: "json", json: { challenge: "{{echo}}" } } },
    ),
    handshake(
      { query: { crc: "*" } },
      { respond: { type: "json", hmac: { of: { query: "crc" } }, json: { token: "{{hmac}}" } } },
    ),
    handshake(
      { query: { named: "*" } },
      {
        respond: {
          type: "json",
          hmac: { of: { query: "named" } },
          json: { token: "sha256={{hmac}}" },
        },
      },
    ),
  ];
  let world: World;
  beforeAll(async () => {
    world = await open({ ...plain, handshakes });
  });
  afterAll(() => world.stop());
  const ask = (init: RequestInit, search = "") =>
    world.gateway.fetch(new Request(`http://127.0.0.1/hooks/own${search}`, init));

  it("answer HEAD and OPTIONS, and no other path does", async () => {
    const head = await ask({ method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    const options = await ask({
      method: "OPTIONS",
      headers: { "webhook-request-origin": "eventgrid.azure.net" },
    });
    expect([options.status, options.headers.get("webhook-allowed-origin")]).toEqual([
      200,
      "eventgrid.azure.net",
    ]);
    for (const init of [{ method: "OPTIONS" }, { method: "PUT" }]) {
      const denied = await ask(init);
      expect([denied.status, denied.headers.get("allow")]).toEqual([
        405,
        "GET, HEAD, OPTIONS, POST",
      ]);
    }
    const other = await world.gateway.fetch(
      new Request("http://127.0.0.1/hooks/wake", { method: "HEAD" }),
    );
    expect([other.status, other.headers.get("allow")]).toEqual([405, "POST"]);
  });

  it("echo an unsigned challenge, which never runs; and what is no challenge is verified as ever", async () => {
    const post = (body: string, headers: Record<string, string> = {}) =>
      ask({
        method: "POST",
        body,
        headers: { "content-length": String(body.length), ...headers },
      });
    const answered = await post('{"challenge":"3eZbrw1aBm"}');
    expect([answered.status, await answered.json()]).toEqual([200, { challenge: "3eZbrw1aBm" }]);
    const refused = [
      '{"challenge":"<script>"}',
      '{"challenge":"a","event":{}}',
      '{"challenge":{"a":1}}',
      `{"challenge":"${"a".repeat(5000)}"}`,
      '{"event":{}}',
    ];
    for (const body of refused) expect([body, (await post(body)).status]).toEqual([body, 401]);
    expect((await world.admin("/admin/v1/events")).body.events).toEqual([]);
    const event = '{"n":1,"challenge":"a"}';
    expect((await post(event, { "x-own": hmac(event) })).status).toBe(202);
  });

  it("put a value into a text, as senders do that name the algorithm", async () => {
    const given = await ask({}, "?named=abc-123");
    expect([given.status, await given.json()]).toEqual([
      200,
      { token: `sha256=${hmac("abc-123")}` },
    ]);
  });

  it("sign no text of anyone's that could be a request", async () => {
    const given = await ask({}, "?crc=abc-123");
    expect([given.status, await given.json()]).toEqual([200, { token: hmac("abc-123") }]);
    for (const crc of ['{"n":1}', "a=b", "v0:1:x"])
      expect((await ask({}, `?crc=${encodeURIComponent(crc)}`)).status).toBe(405);
  });
});

describe("the worked examples of docs/signatures.md", () => {
  const page = readFileSync(new URL("../../docs/signatures.md", import.meta.url), "utf8");
  const examples = [...page.matchAll(/^```json5\n([^]*?)^```$/gm)]
    .map(([, text = ""]) => JSON5.parse<{ auth?: { scheme?: unknown; secret: string } }>(text))
    .filter(({ auth }) => typeof auth?.scheme === "object");

  it("can be loaded, answer their handshakes and take what their senders sign", async () => {
    expect(examples).toHaveLength(3);
    const world = await createWorld({
      start: false,
      workers: false,
      config: { hooks: { mappings: examples } },
    });
    const secret = examples[0]?.auth?.secret ?? "";
    const sign = (text: string, encoding: "hex" | "base64"): string =>
      createHmac("sha256", secret).update(text).digest(encoding);
    const ask = async (path: string, init: RequestInit = {}): Promise<[number, string]> => {
      const answer = await world.gateway.fetch(new Request(`http://127.0.0.1/hooks/${path}`, init));
      return [answer.status, await answer.text()];
    };
    const post = async (path: string, body: string, headers: Record<string, string> = {}) =>
      ask(path, {
        method: "POST",
        body,
        headers: { "content-length": String(body.length), ...headers },
      });
    expect(await ask("acme?challenge=abc")).toEqual([200, "abc"]);
    expect(await ask("post", { method: "HEAD" })).toEqual([200, ""]);
    expect(await post("board", '{"challenge":"abc"}')).toEqual([200, '{"challenge":"abc"}']);

    const time = Math.floor(Date.now() / 1000);
    const event = '{"event":{"id":"1","text":"hello"}}';
    const signature = `t=${time},v1=${sign(`${time}.${event}`, "hex")}`;
    expect((await post("acme", event, { "x-acme-signature": signature }))[0]).toBe(202);
    const sentAt = new Date().toISOString();
    const auth = { sentAt, token: "a", signature: sign(`${sentAt}a`, "base64") };
    expect((await post("post", JSON.stringify({ auth, event: { subject: "hi" } })))[0]).toBe(202);
    const moved = '{"event":{"type":"moved","itemName":"x"}}';
    expect((await post(`board?key=${secret}`, moved))[0]).toBe(202);
    expect((await post("board?key=another", moved))[0]).toBe(401);
    await world.stop();
  });
});
