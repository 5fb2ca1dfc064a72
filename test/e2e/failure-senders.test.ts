import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FailureGroup } from "../../src/admin/watch-views.ts";
import { systemClock } from "../../src/core/clock.ts";
import { openStore } from "../../src/store/open.ts";
import { silent } from "../store/home.ts";
import { describePostgres, newSchema } from "../store/postgres.ts";
import { createWorld, TOKEN, type World } from "./world.ts";

const ORDER = {
  id: "order",
  match: { path: "shop", payload: { type: "order" } },
  messageTemplate: "{{id}}",
  deliver: false,
};
const PATH_TOKEN = "token-of-the-shop-0123456789";
const OWN = [{ ...ORDER, auth: { token: PATH_TOKEN } }];
const ALERTS = { failures: { channel: "console", to: "me" } };
const KEYS = ["front", "back"].map((id) => ({ id, key: `key-of-${id}-0123456789` }));
/** The id that the version before senders gave to hooks on `shop` that `order` does not take because of their type. */
const EARLIER_ID = "fgr_bd57142fb11c34e1";
/** Failures are looked at every 30 seconds: here ten times a second. */
const clock = {
  ...systemClock,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 100), signal),
};

function senderTests(getUrl: (dir: string) => string): void {
  let dir: string;
  let world: World;
  beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), "rouse-senders-"))));
  afterEach(async () => {
    await world.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  const open = async (config: object): Promise<void> => {
    world = await createWorld({ dir, clock, config: { store: { url: getUrl(dir) }, ...config } });
  };
  const list = async (query = ""): Promise<FailureGroup[]> =>
    (await world.admin(`/admin/v1/failures${query}`)).body.failures;
  const post = async (id: string, body: object): Promise<FailureGroup> =>
    (await world.admin(`/admin/v1/failures/${id}`, { method: "POST", body: JSON.stringify(body) }))
      .body.failure;
  const summarize = (groups: FailureGroup[]) =>
    groups.map(({ sender, count }) => `${sender} ${count}`).toSorted();
  /** Makes the shop authenticate by the hook token, where it had a token of its own. */
  const useHookToken = async (): Promise<void> => {
    world.write("rouse.json5", {
      gateway: { port: 0 },
      hooks: { enabled: true, token: TOKEN, mappings: [ORDER] },
      store: { url: getUrl(dir) },
      alerts: ALERTS,
    });
    expect((await world.admin("/admin/v1/reload", { method: "POST" })).status).toBe(200);
  };

  it("has a group for each credential of a path, each with what was decided about it", async () => {
    await open({ hooks: { mappings: OWN } });
    for (let n = 0; n < 2; n++)
      await world.post(
        "/hooks/shop",
        { type: "refund" },
        { authorization: `Bearer ${PATH_TOKEN}` },
      );
    await useHookToken();
    await world.post("/hooks/shop", { type: "refund" });
    expect(summarize(await list())).toEqual(["hooks.token 1", "path:shop 2"]);
    const [own] = await list("?sender=path:shop");
    await post(own?.id ?? "", { action: "assign", assignee: "ann" });
    await post(own?.id ?? "", { action: "resolve" });
    expect(
      (await list()).map(({ sender, assignee, status }) => [sender, assignee, status]),
    ).toEqual([
      ["hooks.token", null, "open"],
      ["path:shop", "ann", "resolved"],
    ]);
    expect(JSON.stringify(await list())).not.toContain(PATH_TOKEN);
  });

  it("names the key of failed turns, and gives neither strangers nor users of a key a group of their own", async () => {
    const acme = {
      type: "openai-compatible",
      baseUrl: "http://127.0.0.1:9/v1",
      apiKey: "k-0123456789",
    };
    await open({
      gateway: { trustedProxies: ["127.0.0.1"] },
      models: { providers: { acme } },
      agents: { defaults: { model: "acme/large" } },
      platform: { apiKeys: KEYS },
      hooks: { mappings: [ORDER] },
    });
    const ask = async (key: string, n: number): Promise<number> => {
      const headers = {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        "x-forwarded-for": `203.0.113.${n}`,
      };
      const body = JSON.stringify({
        model: "agent:main",
        user: `user-${n}`,
        messages: [{ role: "user", content: "hi" }],
      });
      const response = await fetch(`${world.url}/v1/chat/completions`, {
        method: "POST",
        headers,
        body,
      });
      await response.text();
      return response.status;
    };
    for (let n = 1; n <= 5; n++)
      expect(await ask(KEYS[0]?.key ?? "", n)).toBeGreaterThanOrEqual(500);
    expect(await ask(KEYS[1]?.key ?? "", 1)).toBeGreaterThanOrEqual(500);
    for (let n = 1; n <= 30; n++) {
      const strange = {
        authorization: `Bearer nobody-${n}-0123456789`,
        "x-forwarded-for": `198.51.100.${n}`,
      };
      const answers = [
        await ask(`nobody-${n}-0123456789`, n),
        (await world.post(`/hooks/shop`, { type: "refund" }, strange)).status,
      ];
      expect(answers).toEqual([401, 401]);
    }
    const groups = await list();
    expect(summarize(groups)).toEqual(["api:back 1", "api:front 5"]);
    expect(groups.map(({ title }) => title).toSorted()).toEqual([
      expect.stringMatching(/^Runs from API key back failed: provider_\w+$/),
      expect.stringMatching(/^Runs from API key front failed: provider_\w+$/),
    ]);
  });

  it("keeps what an earlier version noted about a group, whose cause had no sender, and does not report it again", async () => {
    const { store } = await openStore({ url: getUrl(dir), clock: systemClock, log: silent });
    const decided = { assignee: "ann", resolved: { at: 1, version: 3 } };
    await store.commit((tx) => {
      tx.set("value", "failures.states", [
        { id: EARLIER_ID, revision: 4, decided, before: { assignee: "bob" } },
      ]);
      tx.set("value", `failures.alerted.${EARLIER_ID}`, { channel: Date.now() });
    });
    await store.close();
    await open({ hooks: { mappings: OWN }, alerts: ALERTS });
    await world.post("/hooks/shop", { type: "refund" }, { authorization: `Bearer ${PATH_TOKEN}` });
    const [group] = await list();
    expect(group).toMatchObject({
      sender: "path:shop",
      assignee: "ann",
      revision: 4,
      isReopened: true,
      resolved: { version: 3 },
    });
    // Messages that were sent before name the group by its earlier id.
    expect((await world.admin(`/admin/v1/failures/${EARLIER_ID}`)).body.failure.id).toBe(group?.id);
    expect(await post(EARLIER_ID, { action: "undo", revision: 4 })).toMatchObject({
      id: group?.id,
      assignee: "bob",
      revision: 5,
    });

    // Another sender of the same cause begins with what was noted, and goes its own way.
    await useHookToken();
    await world.post("/hooks/shop", { type: "refund" });
    const other = (await list("?sender=hooks.token"))[0];
    expect(other).toMatchObject({ assignee: "ann", revision: 4 });
    expect(
      await post(other?.id ?? "", { action: "assign", assignee: "cy", revision: 4 }),
    ).toMatchObject({ assignee: "cy" });
    expect((await list("?sender=path:shop"))[0]).toMatchObject({ assignee: "bob", revision: 5 });

    // A cause that was not reported shows that alerts are at work.
    await world.post("/hooks/nowhere", {});
    await world.until(async () => world.printed.some((text) => text.includes("nowhere")));
    expect(world.printed.filter((text) => text.includes("shop"))).toEqual([]);
  });
}

describe("senders of failures on SQLite", () =>
  senderTests((dir) => `sqlite:${join(dir, "test.db")}`));

describePostgres("with a schema of its own", () => {
  describe("senders of failures on PostgreSQL", () => {
    let schema: ReturnType<typeof newSchema>;
    beforeEach(() => void (schema = newSchema()));
    afterEach(() => schema.drop());
    senderTests(() => schema.url);
  });
});
