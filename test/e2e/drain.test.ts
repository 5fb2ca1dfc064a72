import { afterEach, expect, it } from "vitest";
import { createProcessWorld, until, type ProcessWorld } from "./process-world.ts";

let world: ProcessWorld;
afterEach(() => world.close());

it("SIGTERM: new hooks get 503, a running turn ends, and the exit code is 0", async () => {
  world = await createProcessWorld({ gateway: { drainSeconds: 20 } });
  const { provider } = world;
  let answer: (text: string) => void = () => undefined;
  provider.answer = () => new Promise((resolve) => (answer = resolve));
  const gateway = await world.start();
  const runId = await gateway.accept("a long turn");
  await until(() => provider.requests.length === 1);
  const stopped = gateway.stop();
  await until(async () => (await gateway.statusOf("/readyz")) === 503);
  expect(await gateway.statusOf("/livez")).toBe(200);
  // A proxy lets go of the connection before the gateway closes it.
  expect((await fetch(`${gateway.url}/readyz`)).headers.get("connection")).toBe("close");
  const late = await gateway.post("agent", { message: "too late" });
  expect([late.status, late.body.error?.code]).toEqual([503, "draining"]);
  expect(late.headers.get("retry-after")).toMatch(/^\d+$/);
  expect(await gateway.run(runId)).toMatchObject({ status: "running" });
  answer("done in time");
  expect(await stopped).toBe(0);
  const next = await world.start();
  expect(await next.run(runId)).toMatchObject({
    status: "succeeded",
    reply: "done in time",
    attempts: 1,
  });
  expect(provider.requests).toHaveLength(1);
});

it("SIGTERM: a run that does not end in time is put back, and the next start executes it once", async () => {
  world = await createProcessWorld({ gateway: { drainSeconds: 0.2 } });
  const { provider } = world;
  provider.answer = () => new Promise(() => undefined);
  const gateway = await world.start();
  const running = await gateway.accept("a turn without an end", { sessionKey: "hook:one" });
  const waiting = await gateway.accept("the next of its conversation", { sessionKey: "hook:one" });
  await until(() => provider.requests.length === 1);
  expect(await gateway.stop()).toBe(0);
  provider.answer = () => "now it ended";
  const next = await world.start();
  await until(async () => (await next.run(waiting)).status === "succeeded");
  expect(await next.run(running)).toMatchObject({
    status: "succeeded",
    reply: "now it ended",
    attempts: 1,
  });
  // Once before the end, then each once, in order.
  expect(
    provider.requests.map(
      (request) => /without an end|the next of/.exec(provider.text(request).slice(-400))?.[0],
    ),
  ).toEqual(["without an end", "without an end", "the next of"]);
  expect(await next.stop()).toBe(0);
});
