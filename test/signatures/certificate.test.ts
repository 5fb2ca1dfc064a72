import { createSign, generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import https from "node:https";
import { createRequire } from "node:module";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { Verifier } from "../../src/intake/signatures/types.ts";
import { createVerifiers } from "../../src/intake/signatures/verifiers.ts";
import { createWorld, type Answer, type World } from "../e2e/world.ts";
import { SCHEMES } from "../mapping/world.ts";

/** Amazon's own validator, as an oracle. It fetches certificates by `https.get`. */
const Validator = createRequire(import.meta.url)("sns-validator") as new () => {
  validate(message: object, done: (error: Error | null) => void): void;
};

const pem = (name: string): string => readFileSync(join(import.meta.dirname, "keys", name), "utf8");
const [KEY, CERT, EC_CERT] = [pem("signer.key.pem"), pem("signer.cert.pem"), pem("ec.cert.pem")];
const OTHER_KEY = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({
  type: "pkcs8",
  format: "pem",
}) as string;

const HOST = "https://sns.us-east-1.amazonaws.com";
const CERT_URL = `${HOST}/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem`;
const SUBSCRIBE_URL = `${HOST}/?Action=ConfirmSubscription&TopicArn=arn&Token=canary-token`;
const ARN = "arn:aws:sns:us-east-1:123456789012:orders";
const NOW = Date.UTC(2026, 5, 1, 12);

type Message = Record<string, string>;

/** The fields that are signed, from Amazon's documentation. */
const SIGNED: Record<string, string[]> = {
  Notification: ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"],
  SubscriptionConfirmation: [
    "Message",
    "MessageId",
    "SubscribeURL",
    "Timestamp",
    "Token",
    "TopicArn",
    "Type",
  ],
  UnsubscribeConfirmation: [
    "Message",
    "MessageId",
    "SubscribeURL",
    "Timestamp",
    "Token",
    "TopicArn",
    "Type",
  ],
};

function message(type: string, change: Message = {}, { now = NOW, key = KEY } = {}): Message {
  const control =
    type === "Notification" ? {} : { Token: "canary-token", SubscribeURL: SUBSCRIBE_URL };
  const made: Message = {
    Type: type,
    MessageId: "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
    TopicArn: ARN,
    Message: '{"id":7,"text":"grüße\\n日本"}',
    Timestamp: new Date(now).toISOString(),
    SignatureVersion: "2",
    SigningCertURL: CERT_URL,
    ...control,
    ...change,
  };
  const signer = createSign(made["SignatureVersion"] === "1" ? "sha1" : "sha256");
  for (const name of SIGNED[type] ?? [])
    if (name in made) signer.update(`${name}\n${made[name]}\n`);
  return { ...made, Signature: signer.sign(key, "base64") };
}

/** The requests, and the answers of their addresses. */
let asked: { url: string; redirect: RequestInit["redirect"]; bounded: boolean }[];
let answers: (url: string) => Response | Promise<Response>;
const fakeFetch: typeof fetch = async (input, init) => {
  const url = input instanceof Request ? input.url : input.toString();
  asked.push({ url, redirect: init?.redirect, bounded: init?.signal instanceof AbortSignal });
  return answers(url);
};
beforeEach(() => {
  asked = [];
  answers = () => new Response(CERT);
});

function verifierOf(topicArn: string | string[] = ARN): Verifier {
  const auth = { scheme: "aws-sns", topicArn };
  const { verifiers, issues } = createVerifiers(
    [{ path: "in", auth, at: "auth" }],
    SCHEMES,
    undefined,
    fakeFetch,
  );
  expect(issues).toEqual([]);
  return verifiers.get("in") as Verifier;
}
const requestOf = (body: string) => ({
  method: "POST",
  url: "https://hooks.example.com/hooks/in",
  headers: { "content-type": "text/plain; charset=UTF-8" },
  query: {},
  raw: Buffer.from(body),
});
const verify = async (given: object | string, { verifier = verifierOf(), now = NOW } = {}) =>
  verifier.verify(requestOf(typeof given === "string" ? given : JSON.stringify(given)), now);

/** The verdict of Amazon's own validator, which gets the certificate from us. */
function oracle(given: Message): Promise<boolean> {
  const get = vi.spyOn(https, "get").mockImplementation(((
    _url: string,
    done: (response: object) => void,
  ) => {
    const body = new PassThrough();
    done(Object.assign(body, { statusCode: 200 }));
    body.end(CERT);
    return body;
  }) as never);
  return new Promise((resolve) => {
    new Validator().validate({ ...given }, (error) => {
      get.mockRestore();
      resolve(error === null);
    });
  });
}

describe("a message whose fields are signed by a certificate", () => {
  it.each([
    ["Notification", {}],
    ["Notification", { Subject: "A subject" }],
    ["SubscriptionConfirmation", {}],
    ["UnsubscribeConfirmation", {}],
  ])("%s %j is verified, by both versions of the signature", async (type, change) => {
    for (const SignatureVersion of ["1", "2"]) {
      const given = message(type, { ...change, SignatureVersion });
      expect(await verify(given)).toEqual({
        ok: true,
        secret: 0,
        duplicate: { by: "id", key: `id:${given["MessageId"]}`, minKeepMs: 7_200_000 },
      });
      // Amazon's validator leaves the token out for the end of a subscription, against Amazon's documentation.
      if (type !== "UnsubscribeConfirmation") expect(await oracle(given)).toBe(true);
    }
  });

  it.each(["Notification", "SubscriptionConfirmation"])(
    "of a %s every signed field counts, and no other",
    async (type) => {
      const given = message(type, type === "Notification" ? { Subject: "A subject" } : {});
      for (const name of SIGNED[type] ?? []) {
        const { [name]: _left, ...without } = given;
        for (const altered of [{ ...given, [name]: `${given[name]} ` }, without]) {
          expect([name, (await verify(altered)).ok, await oracle(altered)]).toEqual([
            name,
            false,
            false,
          ]);
        }
      }
      const added = { ...given, UnsubscribeURL: "https://evil.example/" };
      expect([(await verify(added)).ok, await oracle(added)]).toEqual([true, true]);
    },
  );

  it("is refused under another key, another version, an unknown one, and without a signature", async () => {
    expect(await verify(message("Notification", {}, { key: OTHER_KEY }))).toEqual({
      ok: false,
      reason: "wrong_signature",
    });
    const given = message("Notification");
    for (const SignatureVersion of ["1", "3", "__proto__", ""])
      expect(await verify({ ...given, SignatureVersion })).toEqual({
        ok: false,
        reason: "wrong_signature",
      });
    for (const Type of ["Other", "constructor", ""])
      expect((await verify({ ...given, Type })).ok).toBe(false);
    const { Signature: _left, ...unsigned } = given;
    expect(await verify(unsigned)).toEqual({ ok: false, reason: "no_signature" });
  });

  it("is refused for another topic, before anything is fetched", async () => {
    const given = message("Notification", { TopicArn: `${ARN}-of-a-stranger` });
    expect(await verify(given)).toEqual({ ok: false, reason: "wrong_topic" });
    expect(asked).toEqual([]);
    expect((await verify(given, { verifier: verifierOf([ARN, `${ARN}-of-a-stranger`]) })).ok).toBe(
      true,
    );
  });

  it("is refused an hour before and after its time, before anything is fetched", async () => {
    const given = message("Notification");
    expect((await verify(given, { now: NOW + 3_600_000 })).ok).toBe(true);
    asked = [];
    for (const now of [NOW + 3_600_001, NOW - 3_600_001])
      expect(await verify(given, { now })).toEqual({ ok: false, reason: "stale_timestamp" });
    for (const Timestamp of [
      "yesterday",
      "1780315200",
      "2026-06-01",
      `${new Date(NOW).toISOString()}\n`,
    ])
      expect(await verify(message("Notification", { Timestamp }))).toEqual({
        ok: false,
        reason: "no_timestamp",
      });
    expect(asked).toEqual([]);
  });

  it.each([
    "https://sns.us-east-1.amazonaws.com.evil.example/a.pem",
    "https://sns.evil.amazonaws.com/a.pem",
    "https://sns.us-east-1a.amazonaws.com/a.pem",
    "https://sns.us-east-1.evil.amazonaws.com/a.pem",
    "https://evil.sns.us-east-1.amazonaws.com/a.pem",
    "https://sns-us-east-1.amazonaws.com/a.pem",
    "https://sns.us-east-1.amazonaws.com.cn.evil.example/a.pem",
    "https://sns.us-east-1.amazonaws.com@evil.example/a.pem",
    "https://evil@sns.us-east-1.amazonaws.com/a.pem",
    "https://sns.us-east-1.amazonaws.com:8443/a.pem",
    "https://sns.us-east-1.amazonaws.com:443/a.pem",
    "http://sns.us-east-1.amazonaws.com/a.pem",
    "ftp://sns.us-east-1.amazonaws.com/a.pem",
    "https:\\\\sns.us-east-1.amazonaws.com\\a.pem",
    "https://sns.us-east-1.amazonaws.com\\@evil.example/a.pem",
    " https://sns.us-east-1.amazonaws.com/a.pem",
    "https://sns.us-east-1.amazonaws.com/a.txt",
    "https://sns.us-east-1.amazonaws.com/?a.pem",
    "https://sns.us-east-1.amazonaws.com/a.pem?b",
    "https://sns.us-east-1.amazonaws.com/#a.pem",
    "https://s3.us-east-1.amazonaws.com/a.pem",
    "https://127.0.0.1/a.pem",
    "//sns.us-east-1.amazonaws.com/a.pem",
    "",
  ])("never fetches a certificate from %s", async (SigningCertURL) => {
    expect(await verify(message("Notification", { SigningCertURL }))).toEqual({
      ok: false,
      reason: "wrong_certificate",
    });
    expect(asked).toEqual([]);
  });

  it.each([
    "sns.eu-central-2.amazonaws.com",
    "sns.us-gov-west-1.amazonaws.com",
    "sns.cn-north-1.amazonaws.com.cn",
  ])("fetches it from %s, within bounds and without following a redirect", async (host) => {
    const SigningCertURL = `https://${host}/a.pem`;
    expect((await verify(message("Notification", { SigningCertURL }))).ok).toBe(true);
    expect(asked).toEqual([{ url: SigningCertURL, redirect: "manual", bounded: true }]);
  });

  it.each<[string, () => Response]>([
    ["an error", () => new Response("no", { status: 404 })],
    [
      "a redirect",
      () =>
        new Response(null, { status: 302, headers: { location: "https://evil.example/a.pem" } }),
    ],
    ["more than a certificate has", () => new Response(CERT + "x".repeat(100_000))],
    ["something else", () => new Response("<html>")],
    ["a certificate of another kind of key", () => new Response(EC_CERT)],
  ])("is refused if the address of its certificate answers with %s", async (_name, answer) => {
    answers = answer;
    expect(await verify(message("Notification"))).toEqual({
      ok: false,
      reason: "wrong_certificate",
    });
    expect(asked).toHaveLength(1);
  });

  it.each<[string, () => Response | Promise<Response>]>([
    ["is down", () => new Response("no", { status: 503 })],
    ["cannot be reached", () => Promise.reject(new TypeError("fetch failed"))],
    ["takes too long", () => Promise.reject(new DOMException("late", "TimeoutError"))],
  ])(
    "cannot be verified for now if the sender's host %s, and is fetched again",
    async (_name, answer) => {
      const verifier = verifierOf();
      answers = answer;
      expect(await verify(message("Notification"), { verifier })).toEqual({
        ok: false,
        reason: "certificate_unavailable",
      });
      answers = () => new Response(CERT);
      expect((await verify(message("Notification"), { verifier })).ok).toBe(true);
    },
  );

  it("is refused once its certificate is over", async () => {
    const now = Date.UTC(2125, 0, 1);
    expect(await verify(message("Notification", {}, { now }), { now })).toEqual({
      ok: false,
      reason: "wrong_certificate",
    });
  });

  it("fetches a certificate once, also for messages that come together", async () => {
    const verifier = verifierOf();
    const results = await Promise.all(
      [1, 2, 3].map(() => verify(message("Notification"), { verifier })),
    );
    expect(results.every(({ ok }) => ok)).toBe(true);
    expect((await verify(message("SubscriptionConfirmation"), { verifier })).ok).toBe(true);
    expect(asked).toHaveLength(1);
  });

  it("fetches few certificates for strangers, and keeps the one that is in use", async () => {
    const verifier = verifierOf();
    expect((await verify(message("Notification"), { verifier })).ok).toBe(true);
    answers = () => new Response("no", { status: 404 });
    for (let n = 0; n < 50; n++) {
      const stranger = message(
        "Notification",
        { SigningCertURL: `${HOST}/${n}.pem` },
        { key: OTHER_KEY },
      );
      expect((await verify(stranger, { verifier })).ok).toBe(false);
    }
    expect(asked.length).toBeLessThanOrEqual(10);
    expect(
      await verify(message("Notification", { SigningCertURL: `${HOST}/new.pem` }), { verifier }),
    ).toEqual({
      ok: false,
      reason: "certificate_unavailable",
    });
    expect((await verify(message("Notification"), { verifier })).ok).toBe(true);
    asked = [];
    answers = () => new Response(CERT);
    const later = NOW + 61_000;
    const fresh = message("Notification", { SigningCertURL: `${HOST}/fresh.pem` }, { now: later });
    expect((await verify(fresh, { verifier, now: later })).ok).toBe(true);
    // The number of kept certificates has a limit, also for those that did sign something.
    for (let n = 0; n < 40; n++) {
      const now = later + n * 61_000;
      await verify(message("Notification", { SigningCertURL: `${HOST}/kept-${n}.pem` }, { now }), {
        verifier,
        now,
      });
    }
    asked = [];
    const now = later + 41 * 61_000;
    expect(
      (
        await verify(message("Notification", { SigningCertURL: `${HOST}/kept-0.pem` }, { now }), {
          verifier,
          now,
        })
      ).ok,
    ).toBe(true);
    expect(asked).toHaveLength(1);
  });

  it("never throws, whatever comes", async () => {
    const verifier = verifierOf();
    const given = message("Notification");
    const value = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.constant(null),
      fc.integer(),
      fc.constant([]),
      fc.constant({}),
    );
    const names = [
      "Type",
      "MessageId",
      "TopicArn",
      "Message",
      "Timestamp",
      "SignatureVersion",
      "SigningCertURL",
      "Signature",
      "Token",
    ];
    const body = fc.oneof(
      fc.string(),
      fc.constant("null"),
      fc
        .dictionary(fc.constantFrom(...names), value)
        .map((one) => JSON.stringify({ ...given, Signature: "AAAA", ...one })),
    );
    await fc.assert(
      fc.asyncProperty(body, async (text) => {
        expect((await verify(text, { verifier })).ok).toBe(false);
      }),
      { numRuns: 100 },
    );
  });

  it("needs the topic in the config", () => {
    const issues = (auth: object) =>
      createVerifiers(
        [{ path: "in", auth: auth as never, at: "hooks.mappings[0].auth" }],
        SCHEMES,
        undefined,
        fakeFetch,
      ).issues;
    expect(issues({ scheme: "aws-sns" })).toEqual([
      { path: "hooks.mappings[0].auth.topicArn", message: expect.stringContaining("is required") },
    ]);
    expect(issues({ scheme: "aws-sns", topicArn: [] })).toHaveLength(1);
  });
});

describe("through the gateway", () => {
  let world: World;
  beforeAll(async () => {
    world = await createWorld({
      fetch: fakeFetch,
      start: false,
      workers: false,
      logLevel: "trace",
      config: {
        hooks: {
          mappings: [
            {
              id: "sns",
              match: { path: "sns", payload: { Type: "Notification" } },
              auth: { scheme: "aws-sns", topicArn: [ARN] },
              messageTemplate: "{{Message}}",
            },
          ],
        },
      },
    });
  });
  afterEach(() => expect(world.logged.join("")).not.toContain("canary"));
  afterAll(async () => {
    await world.stop();
  });
  const send = (given: Message): Promise<Answer> =>
    world.post("/hooks/sns", JSON.stringify(given), {
      authorization: "",
      "content-type": "text/plain; charset=UTF-8",
    });
  const now = () => ({ now: Date.now() });
  const events = async () =>
    (await world.admin("/admin/v1/events")).body.events as { outcome: string }[];
  const confirmed = () => asked.filter(({ url }) => url === SUBSCRIBE_URL);

  it("a notification becomes a run with its text, once for each id", async () => {
    const given = message("Notification", { MessageId: "m-1" }, now());
    const first = await send(given);
    expect(first.status).toBe(202);
    const { run } = (await world.admin(`/admin/v1/runs/${first.body.runId}`)).body;
    expect(run.input.map((part: { text: string }) => part.text).join("")).toBe(given["Message"]);
    const again = await send(
      message("Notification", { MessageId: "m-1" }, { now: Date.now() + 1000 }),
    );
    expect([again.headers.get("idempotent-replayed"), again.body.runId]).toEqual([
      "true",
      first.body.runId,
    ]);
    const stranger = await send({ ...given, Message: "altered" });
    expect([stranger.status, stranger.body.error.message]).toEqual([
      401,
      "the signature is missing, wrong or too old",
    ]);
  });

  it("503 while the certificate cannot be fetched, so that the sender tries again", async () => {
    answers = () => new Response("no", { status: 500 });
    const address = { MessageId: "m-later", SigningCertURL: `${HOST}/later.pem` };
    const { status, body, headers } = await send(message("Notification", address, now()));
    expect([status, body.error.code, headers.get("retry-after")]).toEqual([503, "overloaded", "5"]);
    answers = () => new Response(CERT);
    expect((await send(message("Notification", address, now()))).status).toBe(202);
  });

  it("a subscription is confirmed after its signature was verified, and makes no work", async () => {
    const before = (await events()).length;
    const given = message("SubscriptionConfirmation", {}, now());
    answers = (url) =>
      new Response(url === SUBSCRIBE_URL ? "<ConfirmSubscriptionResponse/>" : CERT);
    expect((await send({ ...given, Message: "altered" })).status).toBe(401);
    expect(
      (await send(message("SubscriptionConfirmation", {}, { ...now(), key: OTHER_KEY }))).status,
    ).toBe(401);
    expect(
      (await send(message("SubscriptionConfirmation", { TopicArn: `${ARN}-other` }, now()))).status,
    ).toBe(401);
    expect(confirmed()).toEqual([]);
    expect((await send(given)).status).toBe(200);
    expect(confirmed()).toEqual([{ url: SUBSCRIBE_URL, redirect: "manual", bounded: true }]);
    expect(await events()).toHaveLength(before);
  });

  it.each([
    [
      "another host",
      "https://sns.us-east-1.amazonaws.com.evil.example/?Action=ConfirmSubscription",
    ],
    ["plain http", "http://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription"],
    ["a user", "https://evil@sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription"],
  ])("a subscription is not confirmed at %s, whoever signed it", async (_name, SubscribeURL) => {
    const { status, body } = await send(
      message("SubscriptionConfirmation", { SubscribeURL }, now()),
    );
    expect([status, body.error.code]).toEqual([500, "internal"]);
    expect(asked.filter(({ url }) => url !== CERT_URL)).toEqual([]);
  });

  it.each<[string, () => Response | Promise<Response>]>([
    ["an error", () => new Response("no", { status: 403 })],
    [
      "a redirect",
      () => new Response(null, { status: 302, headers: { location: "https://evil.example/" } }),
    ],
    ["nothing", () => Promise.reject(new TypeError("fetch failed"))],
  ])(
    "a confirmation that is answered with %s is an error, so that the sender asks again",
    async (_name, answer) => {
      answers = (url) => (url === SUBSCRIBE_URL ? answer() : new Response(CERT));
      const { status, body } = await send(message("SubscriptionConfirmation", {}, now()));
      expect([status, body.error.code]).toEqual([500, "internal"]);
      expect((await world.admin("/admin/v1/refusals?limit=1")).body.refusals[0]).toMatchObject({
        reason: "unconfirmed",
        authenticated: true,
      });
    },
  );

  it("the end of a subscription is recorded, and not confirmed", async () => {
    const { status, body } = await send(
      message("UnsubscribeConfirmation", { MessageId: "m-end" }, now()),
    );
    expect([status, body.outcome]).toEqual([200, "unmatched"]);
    expect((await events())[0]?.outcome).toBe("unmatched");
    expect(confirmed()).toEqual([]);
  });
});
