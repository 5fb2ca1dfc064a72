import { createRequire } from "node:module";
import { LinearWebhookClient } from "@linear/sdk/webhooks";
import { sign as signGithub, verify as verifyGithub } from "@octokit/webhooks-methods";
import { Paddle } from "@paddle/paddle-node-sdk";
import { EventWebhook } from "@sendgrid/eventwebhook";
import { verifyKey } from "discord-interactions";
import { Webhook } from "standardwebhooks";
import { Stripe } from "stripe";
import { describe, expect, it } from "vitest";
import type { SignedRequest, Verifier } from "../../src/intake/signatures/types.ts";
import { createVerifiers } from "../../src/intake/signatures/verifiers.ts";
import { SCHEMES } from "../mapping/world.ts";
import { bodyOf, SENDERS, TWILIO_FORM, type Sender } from "./senders.ts";

/** The senders' own packages as oracles: what they sign we believe, and what we take for signed they believe. */
const twilio = createRequire(import.meta.url)("twilio") as {
  getExpectedTwilioSignature(token: string, url: string, form: object): string;
  getExpectedBodyHash(body: string): string;
};
const URL_ = "https://hooks.example.com/hooks/in";
const now = (): number => Math.floor(Date.now() / 1000);
const senderOf = (scheme: string): Sender => SENDERS.find((one) => one.scheme === scheme) as Sender;

function verifierOf(scheme: string, secret: string): Verifier {
  const { verifiers, issues } = createVerifiers(
    [{ path: "in", auth: { scheme, secret }, at: "auth" }],
    SCHEMES,
    "https://hooks.example.com",
    fetch,
  );
  expect(issues).toEqual([]);
  return verifiers.get("in") as Verifier;
}
const believes = (
  scheme: string,
  secret: string,
  headers: Record<string, string>,
  body: string,
  change: Partial<SignedRequest> = {},
): boolean => {
  const request = {
    method: "POST",
    url: URL_,
    headers,
    query: {},
    raw: Buffer.from(body),
    ...change,
  };
  return (verifierOf(scheme, secret).verify(request, Date.now()) as { ok: boolean }).ok;
};
/** A request that our own reading of the sender signs, for the sender's package to check. */
const ours = (scheme: string) => {
  const sender = senderOf(scheme);
  const time = now();
  const body = bodyOf(sender, time);
  return {
    ...sender.sign({ body, secret: sender.secrets[0], time, url: URL_ }),
    body,
    secret: sender.secrets[0],
    time,
  };
};

describe("what the sender's own package signs is believed", () => {
  it("standardwebhooks", () => {
    const { body, secret } = ours("standard-webhooks");
    const time = new Date();
    const signature = new Webhook(secret).sign("msg_1", time, body);
    const headers = {
      "webhook-id": "msg_1",
      "webhook-timestamp": String(Math.floor(time.getTime() / 1000)),
      "webhook-signature": signature,
    };
    expect(believes("standard-webhooks", secret, headers, body)).toBe(true);
    expect(believes("standard-webhooks", secret, { ...headers, "webhook-id": "msg_2" }, body)).toBe(
      false,
    );
  });

  it("@octokit/webhooks-methods", async () => {
    const { body, secret } = ours("github");
    expect(
      believes("github", secret, { "x-hub-signature-256": await signGithub(secret, body) }, body),
    ).toBe(true);
    expect(
      believes(
        "github",
        secret,
        { "x-hub-signature-256": await signGithub("another", body) },
        body,
      ),
    ).toBe(false);
  });

  it("stripe", () => {
    const { body, secret } = ours("stripe");
    const header = Stripe.webhooks.generateTestHeaderString({ payload: body, secret });
    expect(believes("stripe", secret, { "stripe-signature": header }, body)).toBe(true);
    expect(believes("stripe", secret, { "stripe-signature": header }, `${body} `)).toBe(false);
  });

  it("twilio, for a form and for JSON", () => {
    const { secret } = ours("twilio");
    const form = new URLSearchParams(TWILIO_FORM).toString();
    const type = { "content-type": "application/x-www-form-urlencoded" };
    const signed = twilio.getExpectedTwilioSignature(secret, URL_, TWILIO_FORM);
    expect(believes("twilio", secret, { ...type, "x-twilio-signature": signed }, form)).toBe(true);
    const json = '{"a":1}';
    const bodySHA256 = twilio.getExpectedBodyHash(json);
    const url = `${URL_}?bodySHA256=${bodySHA256}`;
    const headers = {
      "content-type": "application/json",
      "x-twilio-signature": twilio.getExpectedTwilioSignature(secret, url, {}),
    };
    expect(believes("twilio", secret, headers, json, { url, query: { bodySHA256 } })).toBe(true);
    expect(believes("twilio", secret, headers, '{"a":2}', { url, query: { bodySHA256 } })).toBe(
      false,
    );
    // Without its hash a JSON body would not be covered at all.
    const bare = {
      "content-type": "application/json",
      "x-twilio-signature": twilio.getExpectedTwilioSignature(secret, URL_, {}),
    };
    expect(believes("twilio", secret, bare, json)).toBe(false);
  });
});

/** The packages by their names, each with whether it believes a request of its scheme. */
const PACKAGES: [string, string, (given: ReturnType<typeof ours>) => unknown][] = [
  [
    "standardwebhooks",
    "standard-webhooks",
    ({ headers, body, secret }) => new Webhook(secret).verify(body, headers) !== undefined,
  ],
  [
    "@octokit/webhooks-methods",
    "github",
    ({ headers, body, secret }) => verifyGithub(secret, body, headers["x-hub-signature-256"] ?? ""),
  ],
  [
    "stripe",
    "stripe",
    ({ headers, body, secret }) =>
      Stripe.webhooks.constructEvent(body, headers["stripe-signature"] ?? "", secret).id ===
      "evt_1",
  ],
  [
    "discord-interactions",
    "discord",
    ({ headers, body, secret }) =>
      verifyKey(
        body,
        headers["x-signature-ed25519"] ?? "",
        headers["x-signature-timestamp"] ?? "",
        secret,
      ),
  ],
  [
    "@linear/sdk",
    "linear",
    ({ headers, body, secret, time }) =>
      new LinearWebhookClient(secret).verify(
        Buffer.from(body),
        headers["linear-signature"] ?? "",
        time * 1000,
      ),
  ],
  [
    "@sendgrid/eventwebhook",
    "sendgrid",
    ({ headers, body, secret }) => {
      const hook = new EventWebhook();
      return hook.verifySignature(
        hook.convertPublicKeyToECDSA(secret),
        body,
        headers["x-twilio-email-event-webhook-signature"] ?? "",
        headers["x-twilio-email-event-webhook-timestamp"] ?? "",
      );
    },
  ],
  [
    "@paddle/paddle-node-sdk",
    "paddle",
    ({ headers, body, secret }) =>
      new Paddle("key").webhooks.isSignatureValid(body, secret, headers["paddle-signature"] ?? ""),
  ],
];

it.each(PACKAGES)(
  "signatures: a request that we sign is accepted by %s",
  async (_name, scheme, believesIt) => {
    expect(await believesIt(ours(scheme))).toBe(true);
  },
);
