import { expect, it } from "vitest";
import { openWorld, pass } from "./contents.ts";
import { notification, valueOf, type Arrived } from "./whatsapp-server.ts";
import { VENDORS } from "./vendors.ts";
import { openWhatsApp } from "./whatsapp-world.ts";

const vendor = VENDORS.find(({ id }) => id === "whatsapp");
if (!vendor) throw new Error("whatsapp is not there");
const TEMPLATE = { template: { name: "news", language: "en_US" } };

/** Meta's report about an accepted message: the 24 hours were over. */
const refused = (key: unknown) =>
  notification([
    [
      valueOf(
        [],
        [
          {
            id: "wamid.1",
            status: "failed",
            errors: [{ code: 131047 }],
            biz_opaque_callback_data: key,
          },
        ],
      ),
    ],
  ]);

it("whatsapp: the template is sent once if Meta takes free text and reports later that the 24 hours are over", async () => {
  const { far, world } = await openWorld(vendor, {}, { more: TEMPLATE });
  const { bodies = [] } = far;
  await pass(world, await far.speak("any news?"));
  await world.until(async () => bodies.length === 1);
  const ended = async () => (await world.admin("/admin/v1/deliveries")).body.deliveries[0];
  await world.until(async () => (await ended()).status === "delivered");
  const [free] = bodies;
  await pass(world, refused(free?.["biz_opaque_callback_data"]));
  await world.until(async () => bodies.length === 2);
  expect(bodies[1]).toMatchObject({
    type: "template",
    template: { name: "news", components: [{ parameters: [{ text: "I was given: text alone" }] }] },
  });
  await world.until(async () => (await ended()).status === "delivered");
  // Meta may repeat the first report, and may refuse the template too.
  await pass(world, refused(free?.["biz_opaque_callback_data"]));
  expect((await ended()).status).toBe("delivered");
  await pass(world, refused(bodies[1]?.["biz_opaque_callback_data"]));
  expect(await ended()).toMatchObject({ status: "failed", error: { code: "not_delivered" } });
  expect(bodies).toHaveLength(2);
});

it("whatsapp: an approver is asked by the template if Meta rejects free text", async () => {
  const { channel, server } = await openWhatsApp(TEMPLATE);
  const question = {
    to: "+15557654321",
    code: "7f3",
    text: "May I send the mail?",
    instruction: 'Reply "approve 7f3".',
    verdicts: [{ verdict: "approve" as const, label: "Approve" }],
    expiresAt: 0,
    idempotencyKey: "k",
  };
  const ask = (more: object) => channel.ask?.({ ...question, ...more }, AbortSignal.timeout(5000));
  server.fail({ status: 400, code: 131047 }, 1);
  expect(await ask({})).toMatchObject({ status: "sent" });
  expect(await ask({ refused: true })).toMatchObject({ status: "sent" });
  expect(server.arrived.map(({ text, buttons }: Arrived) => [text, buttons])).toEqual(
    Array.from({ length: 2 }, () => ['May I send the mail? Reply "approve 7f3".', []]),
  );
  expect(await ask({ refused: true, text: "long ".repeat(400) })).toMatchObject({
    status: "failed",
    reason: expect.stringContaining("channels.whatsapp.template") as unknown,
  });
});
