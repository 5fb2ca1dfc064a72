import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { getQuietEnd } from "../../src/turns/channel/collect-messages.ts";
import { modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import type { gate } from "../platform/model.ts";
import { createFastClock, type FastClock } from "../approvals/world.ts";
import { createSlowProvider, message, PIPE, sayOn, sentOn, whenIdle } from "./pipe.ts";

describe("how long further messages are waited for", () => {
  it.each([
    ["one message", [1000], 1000, 1800],
    ["the newest counts", [1000, 1500, 2100], 2200, 2900],
    ["one that waited long", [1000], 90_000, 1800],
    [
      "after ten quiet times without a pause the turn begins",
      [0, ...Array.from({ length: 20 }, (_, at) => at * 700)],
      13_300,
      8000,
    ],
    ["what came before a pause does not count", [0, 60_000, 60_500], 60_600, 61_300],
    ["the clock was set back", [5000], 1000, 1000],
  ])("%s", (_what, times, now, until) => {
    expect(getQuietEnd(times, 800, now)).toBe(until);
  });
});

let world: World;
let provider: Provider;
let clock: FastClock;
let slow: ReturnType<typeof gate>;
beforeEach(async () => {
  clock = createFastClock();
  ({ provider, slow } = await createSlowProvider());
});
afterEach(async () => {
  slow.open();
  // Tests of functions open none.
  await (world as World | undefined)?.stop();
  await provider.close();
});

const say = (text: string, more: object = {}): Promise<void> => sayOn(world, message(text, more));
/** Messages between which no time passes. */
async function sayQuickly(...said: readonly Parameters<typeof sayOn>[1][]): Promise<void> {
  clock.hold();
  for (const each of said) await sayOn(world, each);
  clock.release();
}
const sent = () => sentOn(world);
const whenSent = (count: number) => world.until(async () => sent().length === count);
const runs = async (): Promise<{ id: string; status: string }[]> =>
  (await world.admin("/admin/v1/runs")).body.runs;
const newest = (): string => String(provider.requests.at(-1)?.body.messages.at(-1)?.content);
const idle = () => whenIdle(world);

describe("messages that follow each other quickly", () => {
  const open = async (sessions: object = {}, dir?: string): Promise<void> => {
    world = await createWorld({
      files: { "plugins/pipe.ts": PIPE },
      config: {
        ...modelConfig(provider),
        channels: { pipe: { allowFrom: ["ann", "bob"] } },
        owner: { pipe: "ann" },
        sessions: { quietTime: "300ms", ...sessions },
      },
      clock,
      ...(dir === undefined ? {} : { dir }),
    });
  };

  it("five quick messages of an idle session make one answer, to the last of them, in order", async () => {
    await open();
    const said = ["one", "two", "three", "four", "five"].map((text) => message(text));
    await sayQuickly(...said);
    await whenSent(1);
    await idle();
    expect(sent()).toHaveLength(1);
    expect(sent()[0]).toMatchObject({ text: "done", replyTo: said.at(-1)?.id });
    expect(provider.requests).toHaveLength(1);
    expect(newest()).toMatch(
      /from ann[^]*one[^]*from ann[^]*two[^]*from ann[^]*three[^]*from ann[^]*four[^]*from ann[^]*five/,
    );
    const { events } = (await world.admin("/admin/v1/events")).body;
    expect(events.map(({ outcome }: { outcome: string }) => outcome)).toEqual(
      Array.from({ length: 5 }, () => "accepted"),
    );
    expect((await runs()).map(({ status }) => status)).toEqual(
      Array.from({ length: 5 }, () => "succeeded"),
    );
    const { turns } = (await world.admin("/admin/v1/sessions/show?key=main")).body;
    expect(turns).toHaveLength(1);
  });

  it("messages of several people of a room keep their authors, and the answer goes to the room", async () => {
    await open();
    const lounge = { to: "lounge", direct: false };
    await sayQuickly(
      message("Lunch?", { from: "ann", ...lounge }),
      message("Pizza!", { from: "bob", ...lounge }),
    );
    await whenSent(1);
    await idle();
    expect(sent()).toMatchObject([{ to: "lounge" }]);
    expect(newest()).toMatch(
      /from ann \(the owner\), in the group lounge[^]*Lunch\?[^]*from bob, in the group lounge[^]*Pizza!/,
    );
  });

  it("what comes while a turn runs makes the next turn", async () => {
    await open();
    await say("slow alpha");
    await world.until(async () => provider.requests.length === 1);
    await sayQuickly(message("beta"), message("gamma"), message("delta"));
    expect(provider.requests).toHaveLength(1);
    slow.open();
    await whenSent(2);
    await idle();
    expect(provider.requests).toHaveLength(2);
    expect(newest()).toMatch(/beta[^]*gamma[^]*delta/);
    expect(newest()).not.toContain("alpha");
  });

  it("`/new` and a message from another place are limits between turns", async () => {
    await open();
    await say("slow alpha");
    await world.until(async () => provider.requests.length === 1);
    await say("beta");
    await say("/new");
    await sayQuickly(message("gamma"), message("delta", { to: "room-2" }));
    slow.open();
    await whenSent(5);
    await idle();
    expect(provider.requests).toHaveLength(4);
    const texts = provider.requests.map((request) => provider.text(request));
    expect(texts[1]).toMatch(/alpha[^]*beta/);
    expect(texts[2]).not.toMatch(/alpha|beta|delta/);
    expect(texts[3]).toMatch(/gamma[^]*delta/);
    expect(sent().map(({ to }) => to)).toEqual(["room-1", "room-1", "room-1", "room-1", "room-2"]);
  });

  it('`messages: "separate"` answers each immediately', async () => {
    await open({ messages: "separate", quietTime: "5m" });
    await say("one");
    await say("two");
    await say("three");
    await whenSent(3);
    expect(provider.requests).toHaveLength(3);
  });

  it("a gateway that is stopped meanwhile answers each message once, together", async () => {
    await open();
    clock.hold();
    await say("one");
    await say("two");
    await world.gateway.stop();
    expect(provider.requests).toHaveLength(0);
    clock.release();
    await open({}, world.dir);
    await whenSent(1);
    await idle();
    expect(sent()).toHaveLength(1);
    expect(provider.requests).toHaveLength(1);
    expect(newest()).toMatch(/one[^]*two/);
  });
});
