import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { serve } from "../channels/wire.ts";
import { createWorld, type World } from "./world.ts";

/** Failures are looked at every 30 seconds: here ten times a second. */
const clock = {
  ...systemClock,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 100), signal),
};
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const MAPPINGS = [
  {
    id: "order",
    match: { path: "shop", payload: { type: "order" } },
    messageTemplate: "{{ $number(id) }}",
    deliver: false,
  },
];
const FAILS = { type: "order", id: "x" };

interface Posted {
  id: string | undefined;
  signature: string | undefined;
  body: { type: string; failure: { id: string; title: string; isReopened: boolean } };
}

describe("alerts about failures", () => {
  let receiver: Awaited<ReturnType<typeof serve>>;
  let posted: Posted[];
  let world: World;
  let status: number;
  beforeEach(async () => {
    posted = [];
    status = 204;
    receiver = await serve(({ headers, body }) => {
      const { "webhook-id": id, "webhook-signature": signature } = headers;
      posted.push({ id, signature, body } as Posted);
      return { status };
    });
    world = await createWorld({
      clock,
      config: {
        hooks: { mappings: MAPPINGS, callbackHosts: ["127.0.0.1"] },
        alerts: {
          failures: {
            channel: "console",
            to: "me",
            callback: { url: receiver.url, secret: SECRET },
          },
        },
      },
    });
  });
  afterEach(async () => {
    await world.stop();
    await receiver.close();
  });

  const printed = (): number =>
    world.printed.filter((text) => text.includes("of order failed")).length;
  const looks = (): Promise<void> => new Promise((done) => setTimeout(done, 600));

  it("reports a group once on the channel and at the address, and again when it comes back after it was resolved", async () => {
    // A hook that matches no mapping is no failure.
    await world.post("/hooks/shop", { type: "refund" });
    for (let n = 0; n < 3; n++) await world.post("/hooks/shop", FAILS);
    await world.until(async () => posted.length > 0 && printed() > 0);
    await world.post("/hooks/shop", FAILS);
    await looks();
    expect([posted.length, printed()]).toEqual([1, 1]);
    expect(posted[0]).toMatchObject({
      signature: expect.stringMatching(/^v1,/),
      body: { type: "failure", failure: { isReopened: false } },
    });
    const { id, title } = posted[0]?.body.failure ?? { id: "", title: "" };
    expect(title).toMatch(/^Hooks of order failed: /);
    expect(world.printed.join("")).toContain(`rouse failures ${id}`);

    await world.admin(`/admin/v1/failures/${id}`, {
      method: "POST",
      body: JSON.stringify({ action: "resolve" }),
    });
    await looks();
    expect(posted).toHaveLength(1);
    await world.post("/hooks/shop", FAILS);
    await world.until(async () => posted.length > 1 && printed() > 1);
    expect(posted[1]?.body.failure).toMatchObject({ id, isReopened: true });
    expect(posted[1]?.id).not.toBe(posted[0]?.id);
  });

  it("tries again what an address did not take, and does not repeat the message of the channel", async () => {
    status = 503;
    await world.post("/hooks/shop", FAILS);
    await world.until(async () => posted.length > 1);
    status = 204;
    const before = posted.length;
    await world.until(async () => posted.length > before);
    await looks();
    const after = posted.length;
    await looks();
    expect([posted.length, printed()]).toEqual([after, 1]);
    expect(new Set(posted.map(({ id }) => id)).size).toBe(1);
  });
});
