import { v1 } from "@google-cloud/pubsub";
import { gmail as gmailClient, type gmail_v1 } from "@googleapis/gmail";
import { OAuth2Client } from "google-auth-library";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createGoogle, type FakeGoogle } from "./google.ts";

/** The local server is held to those of Google's own client packages that the plugin does not use itself. */
let google: FakeGoogle;
beforeEach(async () => {
  google = await createGoogle();
});
afterEach(() => google.close());

const TOPIC = "projects/rouse-test/topics/t1";
const SUBSCRIPTION = "projects/rouse-test/subscriptions/s1";
const GMAIL_MEMBER = "serviceAccount:gmail-api-push@system.gserviceaccount.com";
const ROLE = "roles/pubsub.publisher";

/** A client with the owner's consent, by the code flow. */
async function consented(): Promise<OAuth2Client> {
  const { client_id, client_secret } = (
    google.installed as { installed: { client_id: string; client_secret: string } }
  ).installed;
  const client = new OAuth2Client({
    clientId: client_id,
    clientSecret: client_secret,
    redirectUri: "http://127.0.0.1:1",
    endpoints: {
      oauth2AuthBaseUrl: google.endpoints.oauthAuth,
      oauth2TokenUrl: google.endpoints.oauthToken,
    },
  });
  const { codeVerifier, codeChallenge = "" } = await client.generateCodeVerifierAsync();
  const scope = [
    "https://www.googleapis.com/auth/gmail.readonly",
    "https://www.googleapis.com/auth/pubsub",
  ];
  const url = client.generateAuthUrl({
    scope,
    state: "s",
    code_challenge: codeChallenge,
    code_challenge_method: "S256" as never,
  });
  const back = new URL((await fetch(url, { redirect: "manual" })).headers.get("location") ?? "");
  expect(back.searchParams.get("state")).toBe("s");
  const code = back.searchParams.get("code") ?? "";
  const { tokens } = await client.getToken({ code, codeVerifier });
  client.setCredentials(tokens);
  await expect(client.getToken({ code, codeVerifier })).rejects.toThrow("invalid_grant");
  return client;
}

function clients(auth: OAuth2Client) {
  const { hostname, port } = new URL(google.url);
  const options = {
    fallback: true,
    protocol: "http",
    apiEndpoint: hostname,
    port: Number(port),
    authClient: auth,
    projectId: "rouse-test",
  } as const;
  return {
    publisher: new v1.PublisherClient(options),
    subscriber: new v1.SubscriberClient(options),
  };
}

describe("the local server, by Google's own packages", () => {
  it("gives consent, tokens and the mailbox", async () => {
    const auth = await consented();
    const gmail: gmail_v1.Gmail = gmailClient({ version: "v1", auth, rootUrl: `${google.url}/` });
    const id = google.receive({ subject: "Invoice 7", text: "Please pay." });
    const { data: profile } = await gmail.users.getProfile({ userId: "me" });
    expect(profile).toMatchObject({ emailAddress: "ann@example.com", historyId: "1003" });
    const { data: labels } = await gmail.users.labels.list({ userId: "me" });
    expect(labels.labels?.map((label) => label.id)).toContain("INBOX");
    const { data: history } = await gmail.users.history.list({
      userId: "me",
      startHistoryId: "1000",
      labelId: "INBOX",
      historyTypes: ["messageAdded"],
    });
    expect(history.history?.[0]?.messagesAdded?.[0]?.message?.id).toBe(id);
    const { data: list } = await gmail.users.messages.list({
      userId: "me",
      labelIds: ["INBOX"],
      q: "after:1",
    });
    expect(list.messages?.map((message) => message.id)).toEqual([id]);
    const { data: message } = await gmail.users.messages.get({ userId: "me", id, format: "full" });
    expect(Buffer.from(message.payload?.body?.data ?? "", "base64url").toString()).toBe(
      "Please pay.",
    );
    await expect(gmail.users.messages.get({ userId: "me", id: "18f9" })).rejects.toMatchObject({
      status: 404,
    });
    google.expireHistory();
    await expect(
      gmail.users.history.list({ userId: "me", startHistoryId: "1003" }),
    ).rejects.toMatchObject({ status: 404 });
    google.revoke();
    await expect(gmail.users.getProfile({ userId: "me" })).rejects.toThrow(
      /invalid_grant|UNAUTHENTICATED/,
    );
  });

  it("keeps topics, permissions and subscriptions, and carries a change of the mailbox through them", async () => {
    const auth = await consented();
    const gmail: gmail_v1.Gmail = gmailClient({ version: "v1", auth, rootUrl: `${google.url}/` });
    const { publisher, subscriber } = clients(auth);
    await publisher.createTopic({ name: TOPIC });
    await expect(publisher.createTopic({ name: TOPIC })).rejects.toThrow("ALREADY_EXISTS");
    const requestBody = { topicName: TOPIC, labelIds: ["INBOX"] };
    await expect(gmail.users.watch({ userId: "me", requestBody })).rejects.toMatchObject({
      status: 403,
    });
    const base = `${google.url}/v1/${TOPIC}`;
    const { data: policy } = await auth.request<{ etag: string }>({ url: `${base}:getIamPolicy` });
    const bindings = [{ role: ROLE, members: [GMAIL_MEMBER] }];
    const set = {
      url: `${base}:setIamPolicy`,
      method: "POST" as const,
      data: { policy: { ...policy, bindings } },
    };
    await auth.request(set);
    await expect(auth.request(set)).rejects.toMatchObject({ status: 409 });
    const { data: watch } = await gmail.users.watch({ userId: "me", requestBody });
    expect(Number(watch.expiration)).toBeGreaterThan(Date.now());
    await subscriber.createSubscription({
      name: SUBSCRIPTION,
      topic: TOPIC,
      ackDeadlineSeconds: 600,
    });
    google.receive();
    const [pulled] = await subscriber.pull({ subscription: SUBSCRIPTION, maxMessages: 10 });
    const [received] = pulled.receivedMessages ?? [];
    expect(JSON.parse(Buffer.from(received?.message?.data as Uint8Array).toString())).toEqual({
      emailAddress: "ann@example.com",
      historyId: 1003,
    });
    await subscriber.acknowledge({ subscription: SUBSCRIPTION, ackIds: [received?.ackId ?? ""] });
    expect(google.subscriptions.get(SUBSCRIPTION)?.waiting).toEqual([]);
    const pushConfig = {
      pushEndpoint: "https://hooks.example.com/push",
      oidcToken: { serviceAccountEmail: "a@b.example" },
    };
    await subscriber.modifyPushConfig({ subscription: SUBSCRIPTION, pushConfig });
    const [shown] = await subscriber.getSubscription({ subscription: SUBSCRIPTION });
    expect(shown.pushConfig?.pushEndpoint).toBe("https://hooks.example.com/push");
    await Promise.all([publisher.close(), subscriber.close()]);
  });
});
