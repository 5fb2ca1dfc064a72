import { describe, expect, it } from "vitest";
import { said } from "./gateway.ts";
import { notification, textMessage, valueOf } from "./whatsapp-server.ts";
import { openWhatsApp, TO } from "./whatsapp-world.ts";

const USER_ID = "US.13491208655302741918";
const byId = (id: string, text: string) => ({
  ...textMessage(id, text),
  from: undefined,
  from_user_id: USER_ID,
});

describe("people without a phone number", () => {
  it("are known by their business-scoped user id, with their name", async () => {
    const { post, received } = await openWhatsApp({ allowFrom: [USER_ID] });
    const contacts = [{ profile: { name: "Rosa" }, user_id: USER_ID }];
    expect(await post(notification([[{ ...valueOf([byId("1", "hi")]), contacts }]]))).toBe(200);
    expect(received).toEqual([
      { id: "1", from: USER_ID, name: "Rosa", to: USER_ID, direct: true, ...said("hi") },
    ]);
  });

  it("are answered by that id, which stands where WhatsApp wants it", async () => {
    const { send, server } = await openWhatsApp();
    expect(await send({ to: USER_ID })).toMatchObject({ status: "sent" });
    expect(server.bodies[0]).toMatchObject({ recipient: USER_ID, recipient_type: "individual" });
    expect(server.bodies[0]).not.toHaveProperty("to");
    expect(await send({ to: TO })).toMatchObject({ status: "sent" });
    expect(server.bodies[1]).toMatchObject({ to: TO });
    expect(server.bodies[1]).not.toHaveProperty("recipient");
  });

  it("stay who they are if a message shows the number as well", async () => {
    const message = { ...textMessage("1", "hi"), from_user_id: USER_ID };
    const known = await openWhatsApp({ allowFrom: [TO] });
    await known.post(notification([[valueOf([message])]]));
    expect(known.received).toMatchObject([{ from: TO, to: TO }]);
    const byUserId = await openWhatsApp({ allowFrom: [USER_ID] });
    await byUserId.post(notification([[valueOf([message])]]));
    expect(byUserId.received).toMatchObject([{ from: USER_ID, to: USER_ID }]);
  });
});

describe("more than 24 hours after the recipient wrote", () => {
  const LATE = { status: 400, code: 131047 };
  const template = { name: "news", language: "en_US" };

  it("the text goes as the parameter of the template", async () => {
    const { send, server } = await openWhatsApp({ template });
    server.fail(LATE, 1);
    expect(await send({ text: "**Two** lines\n\nof text" })).toMatchObject({ status: "sent" });
    expect(server.arrived).toMatchObject([{ to: TO, text: "*Two* lines of text" }]);
    expect(server.bodies[0]).toMatchObject({
      type: "template",
      template: { name: "news", language: { code: "en_US" } },
    });
    // Within the 24 hours free text is sent.
    expect(await send({ text: "again" })).toMatchObject({ status: "sent" });
    expect(server.bodies[1]).toMatchObject({ type: "text" });
  });

  it("a text that is too long for the template fails, and says why", async () => {
    const { send, server } = await openWhatsApp({ template });
    server.fail(LATE, 1);
    const result = await send({ text: "x".repeat(1025) });
    expect(result).toMatchObject({
      status: "failed",
      reason: expect.stringMatching(/24 hours/) as unknown,
    });
    expect(server.arrived).toEqual([]);
  });

  it("without a template the delivery fails, and other errors never use it", async () => {
    const without = await openWhatsApp();
    without.server.fail(LATE, 1);
    expect(await without.send({})).toMatchObject({ status: "failed" });
    const other = await openWhatsApp({ template });
    other.server.fail({ status: 400, code: 131026 }, 1);
    expect(await other.send({})).toMatchObject({ status: "failed" });
    expect([...without.server.arrived, ...other.server.arrived]).toEqual([]);
  });
});
