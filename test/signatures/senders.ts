import { createHmac, createSign, generateKeyPairSync, sign as signBytes } from "node:crypto";
import type { Signer, Signing } from "../../src/testing/scheme.ts";

/** A sender's way to sign, written from its documentation for the tests alone. It is a second reading, apart from the scheme's. */
export interface Sender extends Signer {
  scheme: string;
}

const hmac = (
  algorithm: string,
  key: string | Buffer,
  text: string,
  encoding: "hex" | "base64" = "hex",
): string => createHmac(algorithm, key).update(text).digest(encoding);

const ed25519 = generateKeyPairSync("ed25519");
const otherEd25519 = generateKeyPairSync("ed25519");
const p256 = generateKeyPairSync("ec", { namedCurve: "P-256" });
const otherP256 = generateKeyPairSync("ec", { namedCurve: "P-256" });
const raw32 = (key: typeof ed25519.publicKey): Buffer =>
  key.export({ type: "spki", format: "der" }).subarray(-32);
const DISCORD = raw32(ed25519.publicKey).toString("hex");
const WHPK = `whpk_${raw32(ed25519.publicKey).toString("base64")}`;
const SENDGRID = p256.publicKey.export({ type: "spki", format: "der" }).toString("base64");

const LONG = "a-secret-of-the-sender-0123456789";
const OTHER = "another-secret-of-it-0123456789";
const WHSEC = `whsec_${Buffer.from("0123456789abcdef01234567").toString("base64")}`;
const WHSEC2 = `whsec_${Buffer.from("fedcba9876543210fedcba98").toString("base64")}`;
const JSON_BODY =
  '{"id":"evt_1","event_id":"Ev1","type":"order.created","data":{"text":"grüße 日本"},"event":{"id":"E1","event_type":"incident.triggered"}}';
const key = (secret: string): Buffer => Buffer.from(secret.replace(/^.*whsec_/, ""), "base64");

const standard = (prefix: string) => (given: Signing) => {
  const { id = "msg_2b3c" } = given;
  const text = `${id}.${given.time}.${given.body}`;
  const signature = given.secret.startsWith("whpk_")
    ? `v1a,${signBytes(null, Buffer.from(text), ed25519.privateKey).toString("base64")}`
    : `v1,${hmac("sha256", key(given.secret), text, "base64")}`;
  return {
    headers: {
      [`${prefix}-id`]: id,
      [`${prefix}-timestamp`]: String(given.time),
      [`${prefix}-signature`]: `v1,bm90IHRoaXMgb25l ${signature}`,
    },
  };
};
const bodyOnly =
  (
    header: string,
    {
      prefix = "",
      algorithm = "sha256",
      encoding = "hex",
    }: { prefix?: string; algorithm?: string; encoding?: "hex" | "base64" } = {},
  ) =>
  (given: Signing) => ({
    headers: { [header]: prefix + hmac(algorithm, given.secret, given.body, encoding) },
  });

/** The form of a message, and the form's fields as the sender joins them. */
export const TWILIO_FORM = {
  To: "+15005550006",
  From: "+15017122661",
  Body: "Hi & bye",
  MessageSid: "SM1",
};
const twilioBody = new URLSearchParams(TWILIO_FORM).toString();

export const SENDERS: readonly Sender[] = [
  {
    scheme: "standard-webhooks",
    secrets: [WHSEC, WHSEC2],
    sign: standard("webhook"),
    tolerance: 300,
  },
  {
    scheme: "standard-webhooks",
    secrets: [WHPK, `whpk_${raw32(otherEd25519.publicKey).toString("base64")}`],
    sign: standard("webhook"),
    tolerance: 300,
  },
  {
    scheme: "standard-webhooks",
    // As Supabase shows it.
    secrets: [`v1,${WHSEC}`, `v1,${WHSEC2}`],
    sign: standard("webhook"),
    tolerance: 300,
  },
  { scheme: "svix", secrets: [WHSEC, WHSEC2], sign: standard("svix"), tolerance: 28 * 3600 },
  {
    scheme: "github",
    secrets: [LONG, OTHER],
    sign: bodyOnly("x-hub-signature-256", { prefix: "sha256=" }),
  },
  {
    scheme: "gitlab",
    secrets: [LONG, OTHER],
    coversBody: false,
    sign: ({ secret }) => ({ headers: { "x-gitlab-token": secret } }),
  },
  {
    scheme: "stripe",
    secrets: [`whsec_${LONG}`, `whsec_${OTHER}`],
    tolerance: 3 * 86_400,
    sign: ({ body, secret, time }) => ({
      headers: {
        "stripe-signature": `t=${time},v1=${"0".repeat(64)},v1=${hmac("sha256", secret, `${time}.${body}`)},v0=ab`,
      },
    }),
  },
  {
    scheme: "slack",
    secrets: [LONG, OTHER],
    tolerance: 600,
    sign: ({ body, secret, time }) => ({
      headers: {
        "x-slack-request-timestamp": String(time),
        "x-slack-signature": `v0=${hmac("sha256", secret, `v0:${time}:${body}`)}`,
      },
    }),
  },
  {
    scheme: "discord",
    secrets: [DISCORD, raw32(otherEd25519.publicKey).toString("hex")],
    tolerance: 600,
    sign: ({ body, time }) => ({
      headers: {
        "x-signature-timestamp": String(time),
        "x-signature-ed25519": signBytes(
          null,
          Buffer.from(`${time}${body}`),
          ed25519.privateKey,
        ).toString("hex"),
      },
    }),
  },
  {
    scheme: "twilio",
    secrets: [LONG, OTHER],
    body: () => twilioBody,
    sign: ({ body, secret, url }) => {
      const fields = [...new URLSearchParams(body)]
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, value]) => name + value);
      return {
        headers: {
          "content-type": "application/x-www-form-urlencoded",
          "x-twilio-signature": hmac("sha1", secret, url + fields.join(""), "base64"),
        },
      };
    },
  },
  {
    scheme: "shopify",
    secrets: [LONG, OTHER],
    sign: bodyOnly("x-shopify-hmac-sha256", { encoding: "base64" }),
  },
  {
    scheme: "linear",
    secrets: [LONG, OTHER],
    tolerance: 60,
    body: (time) =>
      JSON.stringify({ action: "create", type: "Issue", webhookTimestamp: time * 1000 }),
    writeTime: (body, time) =>
      body.replace(/"webhookTimestamp":\d+/, `"webhookTimestamp":${time * 1000}`),
    sign: bodyOnly("linear-signature"),
  },
  { scheme: "sentry", secrets: [LONG, OTHER], sign: bodyOnly("sentry-hook-signature") },
  {
    scheme: "pagerduty",
    secrets: [LONG, OTHER],
    sign: ({ body, secret }) => ({
      headers: {
        "x-pagerduty-signature": `v1=${"0".repeat(64)},v1=${hmac("sha256", secret, body)}`,
      },
    }),
  },
  {
    scheme: "jira",
    secrets: [LONG, OTHER],
    sign: bodyOnly("x-hub-signature", { prefix: "sha256=" }),
  },
  {
    scheme: "bitbucket",
    secrets: [LONG, OTHER],
    sign: bodyOnly("x-hub-signature", { prefix: "sha256=" }),
  },
  {
    scheme: "bitbucket-data-center",
    secrets: [LONG, OTHER],
    sign: bodyOnly("x-hub-signature", { prefix: "sha256=" }),
  },
  { scheme: "gitea", secrets: [LONG, OTHER], sign: bodyOnly("x-gitea-signature") },
  { scheme: "forgejo", secrets: [LONG, OTHER], sign: bodyOnly("x-forgejo-signature") },
  {
    scheme: "notion",
    secrets: [`secret_${LONG}`, `secret_${OTHER}`],
    sign: bodyOnly("x-notion-signature", { prefix: "sha256=" }),
  },
  {
    scheme: "zoom",
    secrets: [LONG, OTHER],
    tolerance: 300,
    sign: ({ body, secret, time }) => ({
      headers: {
        "x-zm-request-timestamp": String(time),
        "x-zm-signature": `v0=${hmac("sha256", secret, `v0:${time}:${body}`)}`,
      },
    }),
  },
  { scheme: "dropbox", secrets: [LONG, OTHER], sign: bodyOnly("x-dropbox-signature") },
  {
    scheme: "meta",
    secrets: [LONG, OTHER],
    sign: bodyOnly("x-hub-signature-256", { prefix: "sha256=" }),
  },
  {
    scheme: "telegram",
    secrets: [LONG, OTHER],
    coversBody: false,
    sign: ({ secret }) => ({ headers: { "x-telegram-bot-api-secret-token": secret } }),
  },
  { scheme: "grafana", secrets: [LONG, OTHER], sign: bodyOnly("x-grafana-alerting-signature") },
  {
    scheme: "paddle",
    secrets: [`pdl_ntfset_${LONG}`, `pdl_ntfset_${OTHER}`],
    tolerance: 3 * 86_400,
    sign: ({ body, secret, time }) => ({
      headers: { "paddle-signature": `ts=${time};h1=${hmac("sha256", secret, `${time}:${body}`)}` },
    }),
  },
  {
    scheme: "webflow",
    secrets: [LONG, OTHER],
    tolerance: 300,
    sign: ({ body, secret, time }) => ({
      headers: {
        "x-webflow-timestamp": String(time * 1000),
        "x-webflow-signature": hmac("sha256", secret, `${time * 1000}:${body}`),
      },
    }),
  },
  {
    scheme: "elevenlabs",
    secrets: [`wsec_${LONG}`, `wsec_${OTHER}`],
    tolerance: 1800,
    sign: ({ body, secret, time }) => ({
      headers: {
        "elevenlabs-signature": `t=${time},v0=${hmac("sha256", secret, `${time}.${body}`)}`,
      },
    }),
  },
  {
    scheme: "sendgrid",
    secrets: [
      SENDGRID,
      otherP256.publicKey.export({ type: "spki", format: "der" }).toString("base64"),
    ],
    tolerance: 300,
    sign: ({ body, time }) => ({
      headers: {
        "x-twilio-email-event-webhook-timestamp": String(time),
        "x-twilio-email-event-webhook-signature": createSign("sha256")
          .update(`${time}${body}`)
          .sign(p256.privateKey, "base64"),
      },
    }),
  },
  {
    scheme: "calendly",
    secrets: [LONG, OTHER],
    tolerance: 300,
    sign: ({ body, secret, time }) => ({
      headers: {
        "calendly-webhook-signature": `t=${time},v1=${hmac("sha256", secret, `${time}.${body}`)}`,
      },
    }),
  },
  {
    scheme: "typeform",
    secrets: [LONG, OTHER],
    sign: bodyOnly("typeform-signature", { prefix: "sha256=", encoding: "base64" }),
  },
  {
    scheme: "hubspot",
    secrets: [LONG, OTHER],
    tolerance: 300,
    sign: ({ body, secret, time, url }) => ({
      headers: {
        "x-hubspot-request-timestamp": String(time * 1000),
        "x-hubspot-signature-v3": hmac(
          "sha256",
          secret,
          `POST${url}${body}${time * 1000}`,
          "base64",
        ),
      },
    }),
  },
  {
    scheme: "intercom",
    secrets: [LONG, OTHER],
    sign: bodyOnly("x-hub-signature", { prefix: "sha1=", algorithm: "sha1" }),
  },
  {
    scheme: "microsoft-graph",
    secrets: [LONG, OTHER],
    coversBody: false,
    body: () =>
      JSON.stringify({
        value: [
          { clientState: LONG, resource: "a" },
          { clientState: LONG, resource: "b" },
        ],
      }),
    sign: () => ({ headers: {} }),
  },
  {
    scheme: "trello",
    secrets: [LONG, OTHER],
    body: () => '{"action":{"id":"51f9424bcd6e040f3c002412","type":"updateCard"}}',
    sign: ({ body, secret, url }) => ({
      headers: { "x-trello-webhook": hmac("sha1", secret, body + url, "base64") },
    }),
  },
  {
    scheme: "mandrill",
    secrets: [LONG, OTHER],
    body: () => new URLSearchParams({ mandrill_events: '[{"event":"send"}]' }).toString(),
    sign: ({ body, secret, url }) => ({
      headers: {
        "content-type": "application/x-www-form-urlencoded",
        "x-mandrill-signature": hmac(
          "sha1",
          secret,
          `${url}mandrill_events${new URLSearchParams(body).get("mandrill_events")}`,
          "base64",
        ),
      },
    }),
  },
  {
    scheme: "mailgun",
    secrets: [LONG, OTHER],
    coversBody: false,
    tolerance: 8 * 3600,
    body: (time) =>
      JSON.stringify({
        signature: {
          timestamp: String(time),
          token: "a8ce0edb2dd8301dee6c2405235584e45aa91d1e9f979f3de0",
          signature: hmac(
            "sha256",
            LONG,
            `${time}a8ce0edb2dd8301dee6c2405235584e45aa91d1e9f979f3de0`,
          ),
        },
        "event-data": { event: "opened", id: "DACSsAdVSeGpLid7TN03WA" },
      }),
    sign: () => ({ headers: {} }),
  },
  {
    scheme: "mailgun-routes",
    secrets: [LONG, OTHER],
    coversBody: false,
    tolerance: 8 * 3600,
    body(time) {
      const token = "a8ce0edb2dd8301dee6c2405235584e45aa91d1e9f979f3de0";
      const signature = hmac("sha256", LONG, `${time}${token}`);
      const fields = { subject: "Grüße", timestamp: String(time), token, signature };
      return new URLSearchParams(fields).toString();
    },
    sign: () => ({ headers: { "content-type": "application/x-www-form-urlencoded" } }),
  },
  {
    scheme: "monday",
    secrets: [LONG, OTHER],
    coversBody: false,
    body: () =>
      '{"event":{"type":"create_pulse","triggerUuid":"645fc8d8709d35718f1ae00ceded91e9"}}',
    sign: ({ secret, time }) => {
      const [head, claims] = [
        { alg: "HS256", typ: "JWT" },
        { accountId: 1825528, userId: 4012689, exp: time + 300, iat: time },
      ].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"));
      const signature = createHmac("sha256", secret)
        .update(`${head}.${claims}`)
        .digest("base64url");
      return { headers: { authorization: `${head}.${claims}.${signature}` } };
    },
  },
  {
    scheme: "okta",
    secrets: [LONG, OTHER],
    coversBody: false,
    body: () =>
      '{"eventType":"com.okta.event_hook","eventId":"b5a188b9-5ece-4636-b041-482ffda96311"}',
    sign: ({ secret }) => ({ headers: { authorization: secret } }),
  },
  { scheme: "asana", secrets: [LONG, OTHER], sign: bodyOnly("x-hook-signature") },
  {
    scheme: "cloudevents",
    secrets: [LONG, OTHER],
    coversBody: false,
    sign: ({ secret }) => ({ headers: { authorization: `Bearer ${secret}` } }),
  },
  {
    scheme: "event-grid",
    secrets: [LONG, OTHER],
    coversBody: false,
    sign: ({ secret }) => ({ headers: {}, query: { code: secret } }),
  },
];

export const bodyOf = (sender: Sender, time: number): string => sender.body?.(time) ?? JSON_BODY;
