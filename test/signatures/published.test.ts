import { SignJWT, UnsecuredJWT } from "jose";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";

/** Requests and answers as the senders' documentation has them, through HTTP. */
const SECRET = "a-secret-of-the-sender-0123456789";
const PUBLIC_URL = "https://hooks.example.com";
const SENDERS = ["trello", "mandrill", "intercom", "monday", "okta", "cloudevents", "event-grid"];

let world: World;
beforeAll(async () => {
  const hook = (scheme: string, secret: string) => ({
    id: scheme,
    match: { path: scheme },
    auth: { scheme, secret },
    messageTemplate: "got {{ $string(payload) }}",
  });
  world = await createWorld({
    workers: false,
    config: {
      gateway: { publicUrl: PUBLIC_URL },
      hooks: {
        mappings: [...SENDERS.map((scheme) => hook(scheme, SECRET)), hook("asana", "pending")],
      },
    },
  });
});
afterAll(() => world.stop());

interface Asked {
  method?: string;
  path: string;
  headers?: Record<string, string>;
  body?: string;
}
async function ask({ method = "POST", path, headers = {}, body }: Asked) {
  const answer = await fetch(`${world.url}/hooks/${path}`, {
    method,
    headers: { "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body }),
  });
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}
const countEvents = async (): Promise<number> =>
  (await world.admin("/admin/v1/events?limit=100")).body.events.length;

describe("how senders test an address", () => {
  it.each(["trello", "mandrill", "intercom"])(
    "%s: a HEAD request is answered 200",
    async (path) => {
      expect(await ask({ method: "HEAD", path })).toMatchObject({ status: 200, text: "" });
    },
  );

  it("okta: the challenge of a header is given back as JSON", async () => {
    // developer.okta.com/docs/concepts/event-hooks, one-time verification request
    const headers = {
      "user-agent": "Okta-Integrations",
      accept: "application/json",
      "x-okta-request-id": "XOZfPkReFFZ10KWyGkzAMwAAADA",
      "x-okta-verification-challenge": "Me_rShK8JHsTnbyYrWXCEoMGbM_zsZ6k0hLPZ_Pg",
    };
    expect(await ask({ method: "GET", path: "okta", headers })).toMatchObject({
      status: 200,
      text: '{"verification":"Me_rShK8JHsTnbyYrWXCEoMGbM_zsZ6k0hLPZ_Pg"}',
    });
    expect((await ask({ method: "GET", path: "okta" })).status).toBe(405);
  });

  it("monday: the posted challenge is given back as it came, and starts nothing", async () => {
    // developer.monday.com/api-reference/docs/webhooks, URL verification
    const body = '{"challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}';
    const before = await countEvents();
    expect(await ask({ path: "monday", body })).toMatchObject({ status: 200, text: body });
    expect(await countEvents()).toBe(before);
  });

  it("cloudevents: the origin of an OPTIONS request is allowed", async () => {
    // CloudEvents 1.0, HTTP 1.1 Web Hooks, 4.1 and 4.2
    const { status, headers } = await ask({
      method: "OPTIONS",
      path: "cloudevents",
      headers: {
        "webhook-request-origin": "eventemitter.example.com",
        "webhook-request-rate": "120",
      },
    });
    expect([status, headers.get("webhook-allowed-origin"), headers.get("allow")]).toEqual([
      200,
      "eventemitter.example.com",
      "OPTIONS, POST",
    ]);
    expect(headers.get("webhook-allowed-rate")).toBe("*");
  });

  it("event-grid: the code of the validation event is given back, to who knows the address", async () => {
    // learn.microsoft.com/azure/event-grid/end-point-validation-event-grid-events-schema
    const body = JSON.stringify([
      {
        id: "2d1781af-3a4c-4d7c-bd0c-e34b19da4e66",
        topic: "/subscriptions/xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
        subject: "",
        data: {
          validationCode: "512d38b6-c7b8-40c8-89fe-f46f9e9622b6",
          validationUrl: "https://rp-eastus2.eventgrid.azure.net:553/eventsubscriptions/x/validate",
        },
        eventType: "Microsoft.EventGrid.SubscriptionValidationEvent",
        eventTime: "2022-10-28T04:23:35.1981776Z",
        metadataVersion: "1",
        dataVersion: "1",
      },
    ]);
    expect(await ask({ path: `event-grid?code=${SECRET}`, body })).toMatchObject({
      status: 200,
      text: '{"validationResponse":"512d38b6-c7b8-40c8-89fe-f46f9e9622b6"}',
    });
    expect((await ask({ path: "event-grid?code=another", body })).status).toBe(401);
  });

  it("asana: the secret of the first request is given back, and waits for the operator", async () => {
    // developers.asana.com/reference/createwebhook
    const secret = "b537207f20cbfa02357cf448134da559e8bd39d61597dcd5631b8012eae53e81";
    const { status, headers } = await ask({
      path: "asana",
      headers: { "x-hook-secret": secret },
      body: "",
    });
    expect([status, headers.get("x-hook-secret")]).toEqual([200, secret]);
    const { candidates } = (await world.admin("/admin/v1/hooks/secrets?path=asana")).body;
    expect(candidates).toMatchObject([{ secret }]);
  });
});

describe("how senders sign", () => {
  const send = async (asked: Asked): Promise<number> => (await ask(asked)).status;

  it("monday: a token that a JWT library signs with the app's secret, for as long as it lasts", async () => {
    const body =
      '{"event":{"type":"create_pulse","triggerUuid":"645fc8d8709d35718f1ae00ceded91e9"}}';
    const claims = {
      accountId: 1825528,
      userId: 4012689,
      aud: "https://www.yourserver.com/endpoint",
    };
    const token = (secret: string, from: string, until: string): Promise<string> =>
      new SignJWT(claims)
        .setProtectedHeader({ alg: "HS256", typ: "JWT" })
        .setNotBefore(from)
        .setExpirationTime(until)
        .sign(new TextEncoder().encode(secret));
    const post = async (authorization: string): Promise<number> =>
      send({ path: "monday", body, headers: { authorization } });
    expect(await post(await token(SECRET, "-1m", "5m"))).toBe(202);
    const [head = "", , signature = ""] = (await token(SECRET, "-1m", "5m")).split(".");
    const forged = Buffer.from(JSON.stringify({ exp: 4e9 })).toString("base64url");
    const endless = await new SignJWT(claims)
      .setProtectedHeader({ alg: "HS256" })
      .sign(new TextEncoder().encode(SECRET));
    const strong = await new SignJWT(claims)
      .setProtectedHeader({ alg: "HS512" })
      .setExpirationTime("5m")
      .sign(new TextEncoder().encode(SECRET.repeat(2)));
    for (const [name, wrong] of [
      ["another secret", await token("another-secret-0123456789", "-1m", "5m")],
      ["expired", await token(SECRET, "-1h", "-2m")],
      ["not yet", await token(SECRET, "2m", "5m")],
      ["without an end", endless],
      ["another algorithm", strong],
      ["unsigned", new UnsecuredJWT(claims).setExpirationTime("5m").encode()],
      ["other claims", `${head}.${forged}.${signature}`],
      ["no token", "Bearer x"],
    ])
      expect([name, await post(wrong as string)]).toEqual([name, 401]);
  });

  it("cloudevents: a bearer token; the id of a header or of the body tells a repeat", async () => {
    const headers = { authorization: `Bearer ${SECRET}` };
    const structured =
      '{"specversion":"1.0","type":"com.example.someevent","source":"/mycontext","id":"C234-1234-1234","data":{}}';
    const cloud = { ...headers, "content-type": "application/cloudevents+json" };
    const first = await ask({ path: "cloudevents", headers: cloud, body: structured });
    const again = await ask({ path: "cloudevents", headers: cloud, body: structured });
    expect([first.status, again.headers.has("idempotent-replayed")]).toEqual([202, true]);
    // In binary mode the body is the data, whose id is another one.
    const binary = (id: string): Asked => ({
      path: "cloudevents",
      headers: { ...headers, "ce-specversion": "1.0", "ce-id": id, "ce-type": "order" },
      body: '{"id":"order-1"}',
    });
    const answers = [await ask(binary("1")), await ask(binary("2")), await ask(binary("1"))];
    expect(answers.map((answer) => answer.headers.has("idempotent-replayed"))).toEqual([
      false,
      false,
      true,
    ]);
    expect(await send({ ...binary("3"), headers: { authorization: SECRET } })).toBe(401);
  });
});
