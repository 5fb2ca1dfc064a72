import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agentBody, wakeBody } from "../../src/turns/validate.ts";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";

const PAGE = readFileSync(resolve(import.meta.dirname, "../../docs/hooks.md"), "utf8");

/** The first column of the table below a heading. */
function firstColumn(heading: string): string[] {
  const section = PAGE.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? "";
  return [...section.matchAll(/^\| `?(\w+)`? +\|/gm)].map(([, name = ""]) => name).slice(1);
}

const examples = [...PAGE.matchAll(/^# (\d{3})\n(curl .*)$/gm)].map(
  ([, status = "", line = ""]) => [line, Number(status)] as const,
);

describe("docs/hooks.md", () => {
  let world: World;
  beforeAll(async () => {
    world = await createWorld();
  });
  afterAll(() => world.stop());

  it("has an example of every kind", () =>
    expect(new Set(examples.map(([, status]) => status))).toEqual(new Set([200, 202, 400, 401])));

  it.each(examples)("%s", async (line, status) => {
    const [, path = ""] = /http:\/\/127\.0\.0\.1:7420(\S+)/.exec(line) ?? [];
    const headers = [...line.matchAll(/-H "([^:]+): ([^"]*)"/g)].map(
      ([, name = "", value = ""]) => [name, value.replace("$HOOK_TOKEN", TOKEN)],
    );
    const request = {
      method: "POST",
      headers: Object.fromEntries(headers) as Record<string, string>,
      body: /-d '(.*)'/.exec(line)?.[1] ?? "",
    };
    const response = await world.gateway.fetch(new Request(`http://127.0.0.1${path}`, request));
    const answer = (await response.json()) as { ok: boolean; status?: string; warnings?: string[] };
    expect([response.status, answer.warnings]).toEqual([status, undefined]);
    if (line.includes("prefer: wait"))
      expect(answer).toMatchObject({ ok: true, status: "succeeded" });
  });

  it("gives the statuses of its table, each for what stands beside it", async () => {
    const hook = (id: string, more: object = {}) => ({
      id,
      match: { path: id },
      messageTemplate: "x",
      ...more,
    });
    const mappings = [
      hook("elsewhere", { allowIps: ["10.0.0.1"] }),
      hook("full", { limits: { queue: 1 } }),
      hook("wrong", { messageTemplate: "{{$number('x')}}" }),
      hook("own", { auth: { token: "another-token-0123456789" } }),
    ];
    const hooks = { mappings, bodyTimeoutSeconds: 0.2, maxBodyBytes: 1000 };
    const open = await createWorld({ workers: false, config: { hooks } });
    const off = await createWorld({ start: false, config: { hooks: { enabled: false } } });
    const ask = async (path: string, init: RequestInit = {}, from = open): Promise<Response> =>
      from.gateway.fetch(
        new Request(`http://127.0.0.1/hooks/${path}`, {
          method: "POST",
          body: "{}",
          ...init,
          headers: { authorization: `Bearer ${TOKEN}`, ...(init.headers as object) },
        }),
      );
    const wake = { body: '{"text":"x"}' };
    const agent = { body: '{"message":"x"}' };
    const post = async (path: string, init: RequestInit, times: number): Promise<Response> => {
      for (let time = 1; time < times; time++) await ask(path, init);
      return ask(path, init);
    };
    const keyed = (text: string): RequestInit => ({
      body: JSON.stringify({ text }),
      headers: { "idempotency-key": "k" },
    });
    const endless = new ReadableStream({ start: (body) => body.enqueue(Buffer.from("{")) });
    const wait = { ...agent, headers: { prefer: "wait=20" } };
    const charset = { body: Buffer.from([0xff]), headers: { "content-type": "text/plain" } };
    const rows: [status: number, ask: () => Promise<Response>, needed?: RegExp | string][] = [
      [200, () => ask("wake", wake)],
      [200, () => ask("agent", wait, world)],
      [202, () => ask("agent", agent)],
      [400, () => ask("wake", { body: "{" })],
      [400, () => ask("wake", charset)],
      [400, () => ask("agent", { body: '{"message":"x","thinking":"hard"}' }), /"issues":\[\{/],
      [401, () => ask("wake", { ...wake, headers: { authorization: "" } }), "www-authenticate"],
      [401, () => ask("own", wake), "www-authenticate"],
      [403, () => ask("elsewhere", wake)],
      [404, () => ask("wake", wake, off)],
      [404, () => ask("nothing", wake)],
      [405, () => ask("agent", { method: "PUT" })],
      [408, () => ask("wake", { body: endless, duplex: "half" })],
      [409, async () => (await ask("wake", keyed("a"))) && ask("wake", keyed("b"))],
      [413, () => ask("wake", { body: "x".repeat(1001) })],
      [415, () => ask("wake", { headers: { "content-type": "image/png" } })],
      [415, () => ask("wake", { headers: { "content-encoding": "compress" } })],
      [429, () => post("wake", { headers: { authorization: "Bearer x" } }, 22), "retry-after"],
      [500, () => ask("wrong", wake)],
      [503, () => post("full", wake, 2), "retry-after"],
    ];
    for (const [status, call, needed] of rows) {
      const answer = await call();
      const text = await answer.text();
      expect([status, answer.status], text).toEqual([status, status]);
      if (typeof needed === "string") expect(answer.headers.get(needed)).toMatch(/./);
      else if (needed) expect(text).toMatch(needed);
    }
    await open.reload({ hooks: { ...hooks, rateLimit: { requests: 1, per: "1h" } } });
    expect((await post("wake", wake, 2)).headers.get("retry-after")).toMatch(/./);
    expect(firstColumn("Status codes")).toEqual([...new Set(rows.map(([status]) => `${status}`))]);
    await Promise.all([open.stop(), off.stop()]);
  });

  it.each([
    ["Wake", wakeBody],
    ["Agent", agentBody],
  ])("%s: names every field", (heading, body) => {
    expect(firstColumn(heading).toSorted()).toEqual(Object.keys(body.shape).toSorted());
  });
});
