import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FailureGroup } from "../../src/operate/watch/failures.ts";
import { createWorld, TOKEN, type World } from "./world.ts";

const ORDER = {
  id: "order",
  match: { path: "shop" },
  messageTemplate: "{{ $number(id) }}",
  deliver: false,
};
const PATH_TOKEN = "token-of-the-shop-0123456789";
const OWN = [{ ...ORDER, auth: { token: PATH_TOKEN } }];
const KEYS = ["front", "back"].map((id) => ({ id, key: `key-of-${id}-0123456789` }));

describe("senders of failures", () => {
  let dir: string;
  let world: World;
  beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), "rouse-senders-"))));
  afterEach(async () => {
    await world.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  const open = async (config: object): Promise<void> => {
    world = await createWorld({ dir, config });
  };
  const list = async (query = ""): Promise<FailureGroup[]> =>
    (await world.admin(`/admin/v1/failures${query}`)).body.failures;
  const summarize = ({ senders }: FailureGroup) =>
    senders.map(({ sender, count }) => `${sender} ${count}`);
  /** Makes the shop authenticate by the hook token, where it had a token of its own. */
  const useHookToken = async (): Promise<void> => {
    world.write("rouse.json5", {
      gateway: { port: 0 },
      hooks: { enabled: true, token: TOKEN, mappings: [ORDER] },
    });
    expect((await world.admin("/admin/v1/reload", { method: "POST" })).status).toBe(200);
  };

  it("names each credential of a path among the senders of a group, the one with the most failures first", async () => {
    await open({ hooks: { mappings: OWN } });
    const own = { authorization: `Bearer ${PATH_TOKEN}` };
    for (const id of ["a", "b"]) await world.post("/hooks/shop", { id }, own);
    await useHookToken();
    await world.post("/hooks/shop", { id: "c" });
    const groups = await list();
    expect(groups.map(summarize)).toEqual([["path:shop 2", "hooks.token 1"]]);
    expect((await list("?sender=path:shop")).map(({ id }) => id)).toEqual([groups[0]?.id]);
    expect(JSON.stringify(groups)).not.toContain(PATH_TOKEN);
  });

  it("names the keys of turns that failed at a provider, and neither strangers nor users of a key", async () => {
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
    expect(groups.map(summarize)).toEqual([["api:front 5", "api:back 1"]]);
    expect(groups[0]?.title).toMatch(/^Runs failed at the provider acme: provider_\w+$/);
  });
});
