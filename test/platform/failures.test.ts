import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { newId } from "../../src/core/ids.ts";
import { openStore } from "../../src/store/open.ts";
import { createShortWaits } from "../e2e/provider.ts";
import { createWorld } from "../e2e/world.ts";
import { gate } from "./model.ts";
import { dataUri, imageMessage, png } from "./images.ts";
import { KEY, platformWorld, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
afterEach(() => world.close());

describe("a gateway that stops", () => {
  it("lets turns come to their end, accepts no more, and stops those that take too long", async () => {
    world = await platformWorld({ config: { gateway: { drainSeconds: 0.5 } } });
    const never = gate();
    world.model.says = (asked) => ({
      text: ["one"],
      wait: () =>
        asked.text.includes("slow") ? never.passed : new Promise((done) => setTimeout(done, 200)),
    });
    const quick = world.chat();
    const slow = world.chat({ messages: [{ role: "user", content: "slow" }] });
    await world.until(async () => world.model.asked.length === 2);
    const stopped = world.gateway.stop();
    const late = await world.chat();
    expect([late.status, late.body.error.code, late.headers.get("retry-after")]).toEqual([
      503,
      "draining",
      "5",
    ]);
    expect((await quick).status).toBe(200);
    const { status, body } = await slow;
    expect([status, body.error.message]).toEqual([503, "the gateway is stopping; try again"]);
    await stopped;
    never.open();
  });
});

describe("a gateway that was killed", () => {
  it("ends the runs that were in progress, since no caller waits for them, and says of an open call that its outcome is unknown", async () => {
    world = await platformWorld();
    await world.chat();
    await world.gateway.stop();
    const { store } = await openStore({
      url: `sqlite:${world.dir}/.rouse/rouse.db`,
      clock: systemClock,
      log: createLogger("silent"),
    });
    const [done] = await store.runs.list({});
    if (!done) throw new Error("there is no run");
    const { endedAt: _endedAt, reply: _reply, ...open } = done;
    const ids = [newId("run", Date.now()), newId("run", Date.now())];
    const [step] = await store.steps.list(done.id);
    if (!step) throw new Error("there is no step");
    const call = {
      id: `${ids[0]}.0.0`,
      modelCallId: "c1",
      tool: "bank.pay",
      name: "bank__pay",
      input: {},
      state: "started",
      startedAt: 1,
    } as const;
    await store.commit((tx) => {
      tx.runs.add({ ...open, id: ids[0] as string, status: "running" });
      tx.steps.add({ ...step, runId: ids[0] as string, calls: [call] });
      tx.runs.add({ ...open, id: ids[1] as string, status: "queued" });
    });
    await store.close();
    const again = await createWorld({ dir: world.dir });
    for (const id of ids) {
      const { body } = await again.admin(`/admin/v1/runs/${id}`);
      expect(body.run).toMatchObject({
        status: "failed",
        error: { code: "crashed" },
        endedAt: expect.any(String),
      });
    }
    const { steps } = (await again.admin(`/admin/v1/runs/${ids[0]}/steps`)).body;
    expect(steps).toMatchObject([{ calls: [{ id: call.id, state: "unknown" }] }]);
    expect((await again.admin(`/admin/v1/runs/${done.id}`)).body.run.status).toBe("succeeded");
    await again.stop();
  });
});

describe("what goes wrong", () => {
  it("has the error object where the agent's model is no longer known", async () => {
    world = await platformWorld({ platform: { maxWaitSeconds: 0 } });
    const { status, body } = await world.chat({ messages: [{ role: "user", content: "x" }] });
    expect([status, body.object]).toEqual([200, "chat.completion"]);
    world.model.says = () => ({ status: 429 });
    const limited = await world.chat();
    expect([
      limited.status,
      limited.body.error.code,
      limited.headers.get("x-should-retry"),
    ]).toEqual([429, "rate_limit_exceeded", "false"]);
    world.model.says = () => ({ text: [], finish: "content_filter" });
    expect((await world.chat()).body.error.message).toBe(
      "I cannot answer right now; my operator has been told.",
    );
    const [run] = (await world.admin("/admin/v1/runs")).body.runs;
    expect(run.error.message).toContain("content filter");
  });

  it("is said to people without the names of config keys", async () => {
    world = await platformWorld({ platform: { maxImageBytes: 10, maxBodyBytes: 5000 } });
    const image = (url: string) => [
      { role: "user", content: [{ type: "image_url", image_url: { url } }] },
    ];
    const refused = [
      await world.chat({ messages: image(dataUri(png(4, 4))) }),
      await world.chat({ messages: image("https://far.example/a.png") }),
      await world.chat({ messages: [{ role: "user", content: "x".repeat(6000) }] }),
    ];
    expect(refused.map(({ status, body }) => [status, body.error.code])).toEqual([
      [400, "image_too_large"],
      [400, "image_host_not_allowed"],
      [413, "body_too_large"],
    ]);
    for (const { body } of refused)
      expect(body.error.message).not.toMatch(/platform\.|models\.|agents\./);
  });

  it("is said by the agent itself if there is no model", async () => {
    world = await platformWorld({ agents: [{ id: "bare", model: "builtin/echo" }] });
    const { body } = await world.chat({ model: "bare" });
    expect(body.choices[0].message.content).toMatch(
      /^\[no model\] Received 7 characters\.[^]*Say it\./,
    );
    expect((await world.chat({ model: "bare", stream: true })).text).toContain(
      "[no model] Received 7 characters.",
    );
  });

  it("leaves no words, no image and no key in the log", async () => {
    world = await platformWorld({ logLevel: "trace", clock: createShortWaits().clock });
    const canary = "canary-4711";
    const image = dataUri(Buffer.concat([png(4, 4), Buffer.from(canary)]));
    await world.chat({
      messages: [{ role: "system", content: canary }, ...imageMessage(image)],
      user: canary,
      session_id: canary,
    });
    await world.chat({ messages: [{ role: "user", content: canary }], temperature: canary });
    await world.chat({ messages: [{ role: "user", content: canary }] }, { key: canary });
    await world.call(`/v1/nothing?user=${canary}`, {});
    world.model.says = () => ({ status: 500 });
    await world.chat({ messages: [{ role: "user", content: canary }] });
    world.model.says = () => ({ text: [canary], cut: true });
    await world.chat({ messages: [{ role: "user", content: canary }], stream: true });
    expect(world.logged.join("")).toContain("a run ended");
    expect(world.logged.join("")).not.toContain(canary);
    expect(world.logged.join("")).not.toContain(KEY);
  });
});
