import { afterEach, beforeEach, expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { plainText } from "../../src/core/text.ts";
import { openStore } from "../../src/store/open.ts";
import { silent } from "../store/home.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import {
  createProcessWorld,
  until,
  type GatewayProcess,
  type ProcessWorld,
} from "./process-world.ts";
import type { Provider } from "./provider.ts";

describePostgres("gateways on PostgreSQL", () => {
  let schema: Schema;
  let world: ProcessWorld;
  let provider: Provider;
  beforeEach(async () => {
    schema = newSchema();
    const mapping = {
      id: "shop",
      match: { path: "shop" },
      sessionKey: "hook:shop:{{id}}",
      messageTemplate: "order {{id}}",
      channel: "console",
      to: "shop",
    };
    world = await createProcessWorld({
      gateway: { drainSeconds: 5 },
      store: { url: "${STORE_URL}" },
      hooks: { mappings: [mapping] },
    });
    ({ provider } = world);
  });
  afterEach(async () => {
    await world.close();
    await schema.drop();
  });

  const start = (...flags: string[]): Promise<GatewayProcess> =>
    world.start(flags, { STORE_URL: schema.url, ROUSE_LOG_LEVEL: "warn" });
  const asked = (text: string): number =>
    provider.requests.filter((request) => provider.text(request).includes(text)).length;

  it("take hooks of each kind, execute each other's, and continue with the rest when one is killed", async () => {
    const acceptor = await start("--no-workers");
    const ended = async (id: string): Promise<boolean> =>
      ["succeeded", "failed"].includes((await acceptor.run(id)).status);
    const order = (to: GatewayProcess): Promise<{ body: { runId: string } }> =>
      to.post("shop", { id: 7 }, { "idempotency-key": "order-7" });
    const agent = await acceptor.accept("say hello", {
      deliver: true,
      channel: "console",
      to: "me",
    });
    const mapped = (await order(acceptor)).body.runId;
    await acceptor.post("wake", { text: "wake up", mode: "now" });
    expect(await acceptor.run(agent)).toMatchObject({ status: "queued" });
    expect(provider.requests).toEqual([]);

    // The same config, the same state folder.
    const worker = await start();
    expect((await order(worker)).body.runId).toBe(mapped);
    await until(async () => (await ended(agent)) && (await ended(mapped)));
    expect(await acceptor.run(agent)).toMatchObject({ status: "succeeded" });
    expect(await worker.run(mapped)).toMatchObject({ status: "succeeded" });
    await until(
      () => worker.output().includes("reply to me") && worker.output().includes("reply to shop"),
    );
    expect(worker.output()).toMatch(/── reply to me ──\nfine/);
    expect(worker.output()).toMatch(/── reply to shop ──\nfine/);
    expect(acceptor.output()).not.toContain("reply to");
    await until(() => asked("wake up") > 0);

    // One that is under way when its gateway is killed, and one behind it.
    provider.answer = () => undefined;
    const slow = await acceptor.accept("first of two", { sessionKey: "hook:slow" });
    const behind = await acceptor.accept("second of two", { sessionKey: "hook:slow" });
    await until(() => asked("first of two") > 0);
    await worker.kill();
    provider.answer = () => "done";
    const next = await start();
    await until(async () => (await ended(slow)) && (await ended(behind)));
    for (const id of [slow, behind])
      expect(await next.run(id)).toMatchObject({ status: "succeeded" });

    expect(await acceptor.stop()).toBe(0);
    expect(await next.stop()).toBe(0);
    const { store } = await openStore({ url: schema.url, clock: systemClock, log: silent });
    const history = await store.sessions.listTurns({
      agentId: "main",
      origin: "hook",
      key: "hook:slow",
      via: { path: "agent", credential: "hooks.token" },
    });
    expect(history.map((turn) => [turn.runId, plainText(turn.input).includes("of two")])).toEqual([
      [slow, true],
      [behind, true],
    ]);
    expect((await store.runs.get(slow))?.attempts).toBe(2);
    await store.close();
    for (const { output } of [acceptor, worker, next])
      expect(output()).not.toMatch(/"level":(?:50|60)/);
  });

  it("cancel a run of a gateway that was killed, though the gateway that is asked continues it", async () => {
    provider.answer = () => undefined;
    const first = await start();
    const runId = await first.accept("take your time");
    await until(() => provider.requests.length === 1);
    await first.kill();
    const next = await start();
    // The lease of the first gateway still holds.
    const { status } = await next.admin(`/admin/v1/runs/${runId}/cancel`, { method: "POST" });
    expect([status, (await next.run(runId)).status]).toEqual([200, "cancelled"]);
  });
});
