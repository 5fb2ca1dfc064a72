import { describe, expect, it, vi } from "vitest";
import { toWhatsApp } from "../../plugins/whatsapp/format.ts";
import { piecesOf } from "./open.ts";
import { ACCESS_TOKEN, PHONE_NUMBER_ID, type Failure } from "./whatsapp-server.ts";
import { openWhatsApp, TO } from "./whatsapp-world.ts";

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

  it("tries later, waits or gives up as the error says, and says what to do", async () => {
    const { send, server } = await openWhatsApp();
    const use = JSON.stringify({
      1: [{ type: "whatsapp", call_count: 100, estimated_time_to_regain_access: 19 }],
    });
    const reason = expect.any(String) as unknown;
    const retry = { status: "retry", reason };
    const refused = (code: number, advice: RegExp): [Failure, object] => [
      { status: 400, code },
      { status: "failed", reason: expect.stringMatching(advice) as unknown },
    ];
    const cases: [Failure, object][] = [
      // Limits, also where the status says 400.
      ...[4, 17, 32, 613, 80007, 130429, 131048, 131056].map((code): [Failure, object] => [
        { status: 400, code },
        { status: "retry", reason: expect.stringContaining(String(code)) as unknown },
      ]),
      // In seconds, and in minutes.
      [
        { status: 429, code: 130429, headers: { "retry-after": "17" } },
        { ...retry, afterMs: 17_000 },
      ],
      [
        { status: 400, code: 80007, headers: { "x-business-use-case-usage": use } },
        { ...retry, afterMs: 19 * 60_000 },
      ],
      // The API itself is at fault.
      [{ status: 500, code: 131000 }, retry],
      [{ status: 400, code: 131016 }, retry],
      [{ status: 502, code: 999 }, retry],
      [{ status: 400, code: 100, transient: true }, retry],
      refused(0, /accessToken/),
      refused(190, /accessToken/),
      refused(3, /whatsapp_business_messaging/),
      refused(10, /whatsapp_business_messaging/),
      refused(200, /whatsapp_business_messaging/),
      refused(299, /whatsapp_business_messaging/),
      refused(100, /phoneNumberId/),
      refused(131026, /recipient/),
      refused(131030, /test number/),
      refused(131047, /24 hours/),
      refused(999999, /error 999999$/),
    ];
    for (const [failure, expected] of cases) {
      server.fail(failure, 1);
      expect(await send({}), JSON.stringify(failure)).toEqual(expected);
    }
    expect(await send({})).toMatchObject({ status: "sent" });
  });

  it("does not know what became of a message when the connection ends after it was written", async () => {
    const { send, server } = await openWhatsApp();
    server.fail("cut-after-taking", 1);
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
