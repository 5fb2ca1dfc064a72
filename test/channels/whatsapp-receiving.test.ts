import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import {
  APP_SECRET,
  notification,
  signedRequest,
  textMessage,
  valueOf,
  VERIFY_TOKEN,
} from "./whatsapp-server.ts";
import { openWhatsApp } from "./whatsapp-world.ts";

describe("receiving from WhatsApp", () => {
  it("hands over every message of a batch, in order: entries, changes and messages", async () => {
    const { post, received } = await openWhatsApp();
    const value = (...ids: string[]) => valueOf(ids.map((id) => textMessage(id, `text of ${id}`)));
    expect(
      await post(notification([[value("1", "2"), value("3")], [value("4")], [], [value()]])),
    ).toBe(200);
    expect(received.map(({ id }) => id)).toEqual(["1", "2", "3", "4"]);
  });

  it("passes over what is no message, and what is another's", async () => {
    const { post, received, host } = await openWhatsApp();
    await post(notification([[valueOf([{ id: "4" }, null, "x"])]]));
    const text = valueOf([textMessage("6", "x")]);
    await post(notification([[valueOf([textMessage("7", "x")], [], "999")]]));
    await post(notification([[text]], { field: "smb_message_echoes" }));
    await post(notification([[text]], { object: "page" }));
    expect(received).toEqual([]);
    expect(host.skipped.map(({ id }) => id)).toEqual(["4"]);
  });

  it("reports what did not arrive, and logs it without its text and its recipient", async () => {
    const { post, received, logged, host } = await openWhatsApp();
    const status = (name: string, code?: number) => ({
      id: "wamid.9",
      status: name,
      recipient_id: "15557654321",
      ...(code !== undefined && { biz_opaque_callback_data: "dlv_q0.0" }),
      ...(code !== undefined && {
        errors: [{ code, title: "Re-engagement message", message: "text of the message" }],
      }),
    });
    await post(
      notification([
        [
          valueOf(
            [textMessage("1", "hi")],
            [status("sent"), status("read"), status("failed", 131047), status("failed")],
          ),
        ],
      ]),
    );
    expect(received).toHaveLength(1);
    expect(logged).toEqual([
      expect.stringMatching(/131047 \(more than 24 hours/),
      expect.stringContaining("without a code"),
    ]);
    expect(logged.join()).not.toMatch(/5557654321|text of/);
    const reason = expect.stringContaining("131047") as unknown;
    expect(host.lost).toEqual([{ idempotencyKey: "dlv_q0.0", reason, resend: false }]);
  });

  it("says that messages were not taken where one could not be kept, so that they come again", async () => {
    const { channel, host, received } = await openWhatsApp();
    const request = notification([[valueOf([textMessage("1", "a"), textMessage("2", "b")])]]);
    const failing = {
      ...host,
      receive: (message: { id: string }) =>
        message.id === "2"
          ? Promise.reject(new Error("disk full"))
          : host.receive(message as never),
    };
    await expect(channel.request?.(request, failing)).rejects.toThrow("disk full");
    expect(received).toHaveLength(1);
  });
});

describe("who may post to the webhook", () => {
  const body = JSON.stringify({
    object: "whatsapp_business_account",
    entry: [
      { id: "1", changes: [{ field: "messages", value: valueOf([textMessage("1", "hi")]) }] },
    ],
  });
  const hmac = (text: string, secret = APP_SECRET): string =>
    createHmac("sha256", secret).update(text).digest("hex");

  it.each<[string, string | undefined]>([
    ["no signature", undefined],
    ["an empty one", ""],
    ["one of another secret", `sha256=${hmac(body, "another")}`],
    ["one of another body", `sha256=${hmac(`${body} `)}`],
    ["one without its name", hmac(body)],
    ["one of another kind", `sha1=${createHmac("sha1", APP_SECRET).update(body).digest("hex")}`],
    ["one with more behind it", `sha256=${hmac(body)}00`],
  ])("no one with %s", async (_name, signature) => {
    const { post, received } = await openWhatsApp();
    expect(await post(signedRequest(body, signature))).toBe(401);
    expect(received).toEqual([]);
  });

  it("whoever signs the very bytes", async () => {
    const { post, received } = await openWhatsApp();
    const spaced = body.replace("{", "{ \n").replace("hi", "h\\u00ef 日本");
    expect(await post(signedRequest(spaced, `sha256=${hmac(spaced)}`))).toBe(200);
    expect(received).toMatchObject([{ text: "hï 日本" }]);
  });

  it("no one if the app's secret is not known", async () => {
    const { post, received, logged } = await openWhatsApp({ appSecret: undefined });
    expect(await post(signedRequest(body, `sha256=${hmac(body)}`))).toBe(403);
    expect(received).toEqual([]);
    expect(logged.join()).toContain("appSecret");
  });

  it("bounds the body and answers other requests plainly", async () => {
    const { post } = await openWhatsApp();
    const large = "x".repeat(256 * 1024 + 1);
    expect(await post(signedRequest(large, `sha256=${hmac(large)}`))).toBe(413);
    for (const text of ["", "no json"])
      expect(await post(signedRequest(text, `sha256=${hmac(text)}`))).toBe(400);
    for (const text of ["null", "[]", "1", '{"object":"whatsapp_business_account","entry":{}}'])
      expect(await post(signedRequest(text, `sha256=${hmac(text)}`))).toBe(200);
    expect(
      await post(
        new Request("http://gateway.example/channels/whatsapp/webhook", { method: "DELETE" }),
      ),
    ).toBe(405);
    expect(
      await post(
        new Request("http://gateway.example/channels/whatsapp/other", {
          method: "POST",
          body: "{}",
        }),
      ),
    ).toBe(404);
  });
});

describe("the handshake", () => {
  const ask = (query: Record<string, string>): Request =>
    new Request(
      `http://gateway.example/channels/whatsapp/webhook?${String(new URLSearchParams(query))}`,
    );
  const good = {
    "hub.mode": "subscribe",
    "hub.verify_token": VERIFY_TOKEN,
    "hub.challenge": "<1158201444>",
  };

  it("gives the challenge back as plain text", async () => {
    const { channel, host } = await openWhatsApp();
    const response = await channel.request?.(ask(good), host);
    expect(response?.status).toBe(200);
    expect(await response?.text()).toBe("<1158201444>");
    expect(response?.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(response?.headers.get("x-content-type-options")).toBe("nosniff");
  });

  it.each([
    { ...good, "hub.verify_token": "wrong" },
    { ...good, "hub.verify_token": "" },
    { ...good, "hub.mode": "unsubscribe" },
    { ...good, "hub.challenge": "1".repeat(501) },
    { "hub.challenge": "1" },
  ])("gives nothing to %j", async (query) => {
    const { post } = await openWhatsApp();
    expect(await post(ask(query))).toBe(403);
  });

  it("fails where no verify token is set", async () => {
    const { post } = await openWhatsApp({ verifyToken: undefined });
    expect(await post(ask({ ...good, "hub.verify_token": "" }))).toBe(403);
  });
});
