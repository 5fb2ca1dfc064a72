import { describe, expect, it, vi } from "vitest";
import { toWhatsApp } from "../../plugins/whatsapp/format.ts";
import plugin from "../../plugins/whatsapp/index.ts";
import { testChannel } from "../../src/testing/channel.ts";
import { openPlugin, piecesOf } from "./open.ts";
import {
  ACCESS_TOKEN,
  APP_SECRET,
  notification,
  PHONE_NUMBER_ID,
  textMessage,
  valueOf,
  whatsappServer,
} from "./whatsapp-server.ts";
import { openWhatsApp, section, TO } from "./whatsapp-world.ts";

testChannel("whatsapp", async () => {
  const server = await whatsappServer();
  const { channel } = openPlugin(plugin, section(`${server.url}/`));
  return {
    channel,
    to: TO,
    malformed: ["", "Ada", "@ada", "+1", "0151 2345678", "+1555765432100000", "+1555x654321"],
    sent: () => server.arrived,
    typing: { place: { replyTo: "wamid.q" }, signs: () => server.typing.signs },
    buttons: () => server.arrived.at(-1)?.buttons.map(({ title }) => title) ?? [],
    async press(label, by) {
      const reply = server.arrived.at(-1)?.buttons.find(({ title }) => title === label);
      const from = by === "approver" ? "15557654321" : "4915112345678";
      const press = {
        ...textMessage(`wamid.press-${label}`, "", from),
        type: "interactive",
        text: undefined,
      };
      return notification([
        [valueOf([{ ...press, interactive: { type: "button_reply", button_reply: reply } }])],
      ]);
    },
    fail: server.fail,
    retryAfterMs: 2000,
    secrets: [ACCESS_TOKEN, APP_SECRET, "15557654321"],
    close: server.close,
  };
});

describe("sending to WhatsApp", () => {
  it("sends what the Cloud API takes, as a reply if there is a message to reply to", async () => {
    const { send, server } = await openWhatsApp();
    expect(await send({ text: "**Hello**", replyTo: "wamid.q" })).toEqual({
      status: "sent",
      messageIds: ["wamid.00000001"],
    });
    expect(server.bodies).toEqual([
      {
        messaging_product: "whatsapp",
        recipient_type: "individual",
        to: TO,
        type: "text",
        text: { preview_url: false, body: "*Hello*" },
        context: { message_id: "wamid.q" },
        biz_opaque_callback_data: "k",
      },
    ]);
  });

  it.each([4, 17, 32, 613, 80007, 130429, 131048, 131056])(
    "tries later at the rate limit %i, also where the status says 400",
    async (code) => {
      const { send, server } = await openWhatsApp();
      server.fail({ status: 400, code }, 1);
      expect(await send({})).toEqual({
        status: "retry",
        reason: expect.stringContaining(String(code)),
      });
      expect(await send({})).toMatchObject({ status: "sent" });
    },
  );

  it("waits as long as the API says, in seconds or in minutes", async () => {
    const { send, server } = await openWhatsApp();
    server.fail({ status: 429, code: 130429, headers: { "retry-after": "17" } });
    expect(await send({})).toMatchObject({ status: "retry", afterMs: 17_000 });
    const use = JSON.stringify({
      1: [{ type: "whatsapp", call_count: 100, estimated_time_to_regain_access: 19 }],
    });
    server.fail({ status: 400, code: 80007, headers: { "x-business-use-case-usage": use } });
    expect(await send({})).toMatchObject({ status: "retry", afterMs: 19 * 60_000 });
  });

  it.each<[number, RegExp]>([
    [0, /accessToken/],
    [190, /accessToken/],
    [3, /whatsapp_business_messaging/],
    [10, /whatsapp_business_messaging/],
    [200, /whatsapp_business_messaging/],
    [299, /whatsapp_business_messaging/],
    [100, /phoneNumberId/],
    [131026, /recipient/],
    [131030, /test number/],
    [131047, /24 hours/],
    [999999, /error 999999$/],
  ])("gives up at error %i and says what to do", async (code, advice) => {
    const { send, server } = await openWhatsApp();
    server.fail({ status: 400, code });
    expect(await send({})).toEqual({ status: "failed", reason: expect.stringMatching(advice) });
  });

  it("tries again where the API itself is at fault", async () => {
    const { send, server } = await openWhatsApp();
    for (const failure of [
      { status: 500, code: 131000 },
      { status: 400, code: 131016 },
      { status: 502, code: 999 },
      { status: 400, code: 100, transient: true },
    ]) {
      server.fail(failure);
      expect((await send({})).status).toBe("retry");
    }
  });

  it("does not know what became of a message when the connection ends after it was written", async () => {
    const { send, server } = await openWhatsApp();
    server.fail("cut-before-answer", 1);
    expect((await send({})).status).toBe("unknown");
    expect(server.arrived).toHaveLength(1);
  });

  it("cuts a long text into pieces that fit once they are in the dialect", async () => {
    const { channel, send, server } = await openWhatsApp();
    const text = Array.from(
      { length: 120 },
      (_, n) => `Line ${n}: [日本語](https://a.example/${n}) 👩‍👩‍👧‍👦 \\*x\\* **b**`,
    ).join("\n");
    const pieces = piecesOf(channel, text);
    expect(pieces.length).toBeGreaterThan(1);
    for (const piece of pieces)
      expect(await send({ text: piece })).toMatchObject({ status: "sent" });
    expect(server.arrived.map((entry) => entry.text).join("\n")).toBe(toWhatsApp(text));
    const table = `| a | b |\n|---|---|\n| ${"x".repeat(36)} | y |\n${"| x | y |\n".repeat(30)}`;
    expect(table.length).toBeLessThan(500);
    expect(channel.lengthOf?.(table)).toBe(toWhatsApp(table).length);
    expect(channel.lengthOf?.(table)).toBeGreaterThan(1000);
  });
});

describe("Meta's own client", () => {
  it("is understood by the test server as the plugin is", async () => {
    const { server, send } = await openWhatsApp();
    vi.stubEnv("NODE_ENV", "production"); // Elsewhere it asks for a package that it does not name.
    vi.stubEnv("CLOUD_API_VERSION", "v25.0");
    vi.stubEnv("CLOUD_API_ACCESS_TOKEN", ACCESS_TOKEN);
    const { default: exported } = await import("whatsapp");
    // Its types say that the class lies one level deeper than it does.
    const WhatsApp = exported as unknown as typeof exported.default;
    const client = new WhatsApp(Number(PHONE_NUMBER_ID));
    // It knows HTTPS on port 443 alone: its requests are carried to the server as they are.
    const carry = vi.spyOn(client.requester.client, "sendRequest");
    carry.mockImplementation(async (_host, _port, path, _method, headers, _timeout, data) => {
      const response = await fetch(server.url + path, {
        method: "POST",
        headers: headers as Record<string, string>,
        body: data as string,
      });
      const body = (await response.json()) as Record<string, unknown>;
      return {
        statusCode: () => response.status,
        headers: () => ({}),
        rawResponse: () => ({}) as never,
        responseBodyToJSON: async () => body,
      };
    });
    const first = await client.messages.text(
      { preview_url: false, body: "Hello" },
      15557654321,
      "wamid.q",
    );
    vi.unstubAllEnvs();
    expect(first.statusCode()).toBe(200);
    expect(await first.responseBodyToJSON()).toMatchObject({
      messages: [{ id: "wamid.00000001" }],
    });
    expect(await send({ replyTo: "wamid.q" })).toMatchObject({ status: "sent" });
    expect(server.bodies[1]).toEqual({
      ...server.bodies[0],
      to: TO,
      biz_opaque_callback_data: "k",
    });
  });
});
