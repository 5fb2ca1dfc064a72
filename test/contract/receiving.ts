import { expect, it, onTestFinished } from "vitest";
import { pass, whenListening } from "../channels/contents.ts";
import type { Vendor } from "../channels/vendors.ts";
import { createProvider, modelConfig } from "../e2e/provider.ts";
import { createWorld } from "../e2e/world.ts";

interface Kept {
  outcome: string;
  reason: string | null;
  bodyBytes: number | null;
  actions: { id: string }[];
}

/**
 * Tests the promises of every channel that receives: the session, the agent and the event of each kind of message, and
 * commands of its people. A plugin's test is this call and the messages of its vendor.
 */
export function receivingContract({ id, section, start }: Vendor): void {
  it(`${id} gives each kind of message its session, its agent and its event`, async () => {
    const far = await start();
    onTestFinished(async () => far.close());
    const provider = await createProvider();
    onTestFinished(provider.close);
    const { group, mention, thread, chatter, stranger, unreadable, reasons } = far.writes;
    const world = await createWorld({
      config: {
        ...modelConfig(provider, { list: [{ id: "main" }, { id: "desk" }] }),
        channels: { [id]: section(far.url) },
        ...(group === null ? {} : { bindings: [{ channel: id, room: group, agent: "desk" }] }),
      },
    });
    onTestFinished(() => world.stop());
    await whenListening(world, id);
    const events = async (): Promise<Kept[]> =>
      (await world.admin(`/admin/v1/events?path=channels/${id}`)).body.events;
    /** Writes a message and gives what is kept of it: the newest of the events that it leaves. */
    const write = async (
      say: (text: string) => Promise<Request | undefined>,
      text: string,
    ): Promise<Kept> => {
      const before = (await events()).length;
      await pass(world, await say(text));
      return world.until(async () => {
        const found = await events();
        return found.length > before && found[0];
      });
    };
    const runOf = async (kept: Kept) => {
      expect(kept.outcome).toBe("accepted");
      const { run } = (await world.admin(`/admin/v1/runs/${kept.actions[0]?.id}`)).body;
      return run as { agentId: string; origin: string; sessionKey: string; to: string };
    };

    const direct = await runOf(await write(far.speak, "direct-1"));
    expect(direct).toMatchObject({ agentId: "main", origin: "main", sessionKey: "main" });
    const rooms: string[] = [];
    for (const say of [mention, thread]) {
      if (say === null) continue;
      const run = await runOf(await write(say, `room-${rooms.length}`));
      expect(run).toMatchObject({
        origin: "channel",
        sessionKey: expect.stringMatching(new RegExp(`^channel:${id}:room:`)) as unknown,
      });
      if (run.to === group) expect(run.agentId).toBe("desk");
      rooms.push(run.sessionKey);
    }
    expect(new Set(rooms).size).toBe(rooms.length);

    const answered = 1 + rooms.length;
    await world.until(async () => provider.requests.length === answered);
    const skipped: [(text: string) => Promise<Request | undefined>, RegExp][] = [
      [chatter, reasons.chatter],
      [stranger, /is not in allowFrom/],
      [unreadable, reasons.unreadable],
    ];
    for (const [say, reason] of skipped) {
      const kept = await write(say, "canary-not-taken");
      expect(kept).toMatchObject({
        outcome: "skipped",
        reason: expect.stringMatching(reason) as unknown,
        bodyBytes: null,
      });
    }

    const before = far.arrived().length;
    await write(far.speak, "/new");
    if (mention !== null) await write(mention, "!stop");
    const said = () => far.arrived().slice(before);
    const stopped = /^(?:Nothing to stop|Stopped)/;
    // The reply to what was written before may arrive as late as this.
    await world.until(async () => said().some(({ text }) => text.startsWith("A new conversation")));
    expect(said().find(({ text }) => text.startsWith("A new conversation"))?.to).toEqual(
      far.answersTo,
    );
    if (mention !== null)
      await world.until(async () => said().some(({ text }) => stopped.test(text)));
    expect(provider.requests).toHaveLength(answered);
    expect(provider.requests.map((request) => provider.text(request)).join()).not.toContain(
      "canary-not-taken",
    );
  });
}
