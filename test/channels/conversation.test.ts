import { afterEach, expect, it } from "vitest";
import { createProvider, modelConfig } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { VENDORS } from "./vendors.ts";

let close: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of close.toReversed()) await end();
  close = [];
});

/** A request of a vendor, as it reaches a gateway that listens on this machine. */
async function deliver(world: World, request: Request): Promise<void> {
  const { method, headers } = request;
  const url = request.url.replace(/^https?:\/\/[^/]+/, "http://127.0.0.1");
  const response = await world.gateway.fetch(
    new Request(url, { method, headers, body: await request.arrayBuffer() }),
  );
  expect(response.status).toBeLessThan(300);
}

it.each(VENDORS)(
  "on $id the owner is answered, and a later hook's reply goes there",
  async ({ id, section, start }) => {
    const far = await start();
    close.push(async () => far.close());
    const provider = await createProvider();
    close.push(provider.close);
    provider.answer = (request) =>
      `You said: ${String(request.body.messages.at(-1)?.content).slice(-9)}`;
    const config = { ...modelConfig(provider), channels: { [id]: section(far.url) } };
    let world = await createWorld({ config });
    close.push(() => world.stop());
    const speak = async (text: string): Promise<void> => {
      const request = await far.speak(text);
      if (request) await deliver(world, request);
    };
    const service = () =>
      world.until(async () =>
        (await world.admin("/admin/v1/status")).body.status.services.find(
          (one: { id: string; ok: boolean; message: string }) =>
            one.id === id && one.ok && one.message !== "starting",
        ),
      );
    await service();
    const before = far.arrived().length;
    await speak("say hello");
    const answered = await world.until(async () => far.arrived()[before]);
    expect([answered.to, answered.text]).toEqual([
      far.answersTo,
      expect.stringContaining("You said: say hello"),
    ]);
    // The last route is on disk: another gateway on the same folder knows it.
    const { dir } = world;
    await world.gateway.stop();
    world = await createWorld({ dir, config });
    await world.post("/hooks/agent", {
      message: "the build is broken",
      channel: "last",
      wakeMode: "next-heartbeat",
    });
    const told = await world.until(async () => far.arrived()[before + 1]);
    expect(told.to).toBe(far.answersTo);
    const { deliveries } = (await world.admin("/admin/v1/deliveries")).body;
    await world.until(
      async () =>
        (await world.admin(`/admin/v1/deliveries/${deliveries[0].id}`)).body.delivery.status ===
        "delivered",
    );
    // It goes on to hear.
    await service();
    await speak("and again");
    expect(await world.until(async () => far.arrived()[before + 2])).toMatchObject({
      to: far.answersTo,
    });
    expect(far.arrived()).toHaveLength(before + 3);
  },
);
