import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import { hc, type ClientResponse } from "hono/client";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import type { AdminApp } from "../../src/http/admin/app.ts";
import type { BulkLine } from "../../src/operate/records/bulk.ts";
import type { Explanation } from "../../src/operate/records/explain.ts";
import type { EventView } from "../../src/operate/records/views.ts";
import { definePlugin } from "../../src/plugin/api.ts";
import { KEEP } from "../store/suite/make.ts";
import { actIn, shownSteps } from "../store/acted.ts";
import { TOKEN } from "../e2e/world.ts";
import { ask, createWorld, event_, runAction, type World } from "./admin-world.ts";

let world: World;
beforeEach(async () => {
  world = await createWorld();
});
afterEach(() => world.close());

/** Takes another gateway in place of the one that every test begins with. */
async function reopen(...options: Parameters<typeof createWorld>): Promise<void> {
  await world.close();
  world = await createWorld(...options);
}

const client = () =>
  hc<AdminApp>("http://127.0.0.1/admin/v1", {
    headers: { authorization: `Bearer ${world.gateway.operatorToken}` },
    fetch: async (...args: Parameters<typeof fetch>) => world.gateway.fetch(new Request(...args)),
  });

/** Asks as the command line does. */
async function got<T>(
  request: (api: ReturnType<typeof client>) => Promise<ClientResponse<T, 200, "json">>,
): Promise<T> {
  const response = await request(client());
  expect(response.status).toBe(200);
  return response.json();
}

/** The default of `hooks.retention`. */
const RETENTION_MS = 3 * 86_400_000;
const BROKEN = { hooks: { enabled: true, token: TOKEN, path: "/" } };

const showEvent = (id: string) => (api: ReturnType<typeof client>) =>
  api.events[":id"].$get({ param: { id } });

async function replayLines(body: unknown): Promise<BulkLine[]> {
  const response = await world.request("/events/replay", {
    method: "POST",
    body: JSON.stringify(body),
  });
  expect(response.status).toBe(200);
  return (await response.text())
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as BulkLine);
}

describe("events", () => {
  it("lists the newest first, in pages that miss and repeat nothing", async () => {
    const events = Array.from({ length: 5 }, () => event_("shop"));
    for (const event of events) await world.store.accept(event);
    const seen: string[] = [];
    let next: string | null = "";
    while (next !== null) {
      const before = next === "" ? undefined : next;
      const page: { events: EventView[]; next: string | null } = await got((api) =>
        api.events.$get({ query: { limit: "2", before } }),
      );
      expect(page.events.length).toBeLessThanOrEqual(2);
      seen.push(...page.events.map(({ id }) => id));
      ({ next } = page);
    }
    expect(seen).toEqual(events.map(({ id }) => id).toReversed());
    expect((await got((api) => api.events.$get({ query: { limit: "5" } }))).next).toBeNull();
  });

  it("refuses parameters that it does not know or cannot read, and names them", async () => {
    for (const [path, parameter] of [
      ["/events?outcom=failed", "outcom"],
      ["/events?outcome=lost", "outcome"],
      ["/events?limit=0", "limit"],
      ["/events?since=yesterday", "since"],
      ["/runs?status=done", "status"],
      ["/runs?kind=work", "kind"],
      ["/deliveries?statu=failed", "statu"],
      ["/sessions?key=x", "key"],
    ] as const)
      expect([path, await ask(world, "GET", path)]).toMatchObject([
        path,
        { status: 400, body: { error: { code: "usage", issues: [{ path: parameter }] } } },
      ]);
  });

  it("shows an event with its body and the status that its runs have now", async () => {
    const action = runAction();
    const event = event_("shop", { outcome: "accepted", actions: [action] });
    await world.store.accept(event);
    await world.store.commit((tx) => tx.runs.update(action.runId, { status: "failed" }));
    const { event: shown } = await got(showEvent(event.id));
    expect(shown.actions).toEqual([
      { kind: "run", id: action.runId, mapping: null, name: "Shop", status: "failed" },
    ]);
    expect(shown.request).toMatchObject({
      body: '{"a":1}',
      encoding: "utf8",
      headers: { "x-shop": "1" },
    });
  });

  it("explains an event whose run is not kept any more, and says so", async () => {
    const now = Date.now();
    const [old, young] = [runAction(), runAction()];
    const event = event_("shop", { outcome: "accepted", actions: [old, young] });
    await world.store.accept(event);
    await world.store.commit((tx) =>
      tx.runs.update(old.runId, { status: "succeeded", endedAt: now }),
    );
    await world.store.sweep(now + 2 * KEEP.runs, { ...KEEP, events: 3 * KEEP.runs });
    expect(await world.store.runs.get(old.runId)).toBeUndefined();
    const { status, body } = await ask(world, "GET", `/events/${event.id}/explain`);
    expect(status).toBe(200);
    const { explanation } = body as unknown as { explanation: Explanation };
    expect(explanation.runs.map(({ run }) => run.id)).toEqual([young.runId]);
    expect(explanation.event.actions).toMatchObject([
      { id: old.runId, status: "forgotten" },
      { id: young.runId, status: "queued" },
    ]);
  });

  it("answers 404 for what is not there, in the shape of every error", async () => {
    for (const path of [
      "/events/evt_x",
      "/runs/run_x",
      "/deliveries/dlv_x",
      "/sessions/show?key=x",
      "/nothing",
    ]) {
      const { status, body } = await ask(world, "GET", path);
      expect([path, status]).toEqual([path, 404]);
      expect(body).toMatchObject({
        ok: false,
        error: { code: "not_found" },
        requestId: expect.stringMatching(/^req_/),
      });
    }
  });
});

describe("bulk replay", () => {
  it("continues after one that cannot be replayed, and leaves older ones out with since", async () => {
    const old = event_("shop", { outcome: "failed", receivedAt: Date.now() - 7_200_000 });
    const forgotten = event_("shop", {
      outcome: "failed",
      request: { method: "POST", headers: {}, query: {}, body: null },
    });
    const good = event_("shop", { outcome: "failed" });
    await reopen({ events: [old, forgotten, good] });
    const lines = await replayLines({ select: "failed", since: "1h" });
    expect(lines.map((line) => (line.type === "result" ? line.ok : line.type))).toEqual([
      "total",
      false,
      true,
      "end",
    ]);
    expect(lines.at(-1)).toEqual({ type: "end", done: 1, failed: 1 });
  });

  it("reaches all of more events than fit a page", async () => {
    for (let i = 0; i < 230; i++)
      await world.store.accept(event_("shop", { outcome: "unmatched" }));
    const lines = await replayLines({ select: "unmatched", dryRun: true });
    expect(lines[0]).toMatchObject({ total: 230 });
    const ids = lines.flatMap((line) => (line.type === "result" && line.ok ? [line.id] : []));
    expect(new Set(ids).size).toBe(230);
  });
});

describe("sessions", () => {
  const ref = { agentId: "main", origin: "hook" as const, key: "hook:1" };
  const turn = {
    runId: "run_1",
    at: 1000,
    hook: "shop",
    input: [{ text: "Hi", outside: true }],
    unsafe: false,
    messages: [{ role: "assistant", content: "Hello" }],
  };

  it("shows a history, forgets it, and deletes the session", async () => {
    await world.store.commit((tx) => tx.sessions.addTurn(ref, turn));
    const shown = await got((api) => api.sessions.show.$get({ query: { key: "hook:1" } }));
    expect(shown).toMatchObject({
      session: { key: "hook:1", turns: 1 },
      turns: [{ runId: "run_1", input: turn.input, messages: turn.messages }],
    });
    expect((await ask(world, "POST", "/sessions/reset", { key: "hook:1" })).status).toBe(200);
    expect(await world.store.sessions.listTurns(ref)).toEqual([]);
    expect((await ask(world, "DELETE", "/sessions?key=hook:1")).status).toBe(200);
    expect((await ask(world, "GET", "/sessions/show?key=hook:1")).status).toBe(404);
  });

  it("keeps the main session, which can be shown before its first turn", async () => {
    await world.store.commit((tx) =>
      tx.systemEvents.add({
        id: "sev_1",
        agentId: "main",
        at: 5,
        text: [{ text: "Hm", outside: true }],
        source: "wake",
        mode: "next-heartbeat",
        unsafe: false,
      }),
    );
    const shown = await got((api) => api.sessions.show.$get({ query: { key: "main" } }));
    expect(shown).toMatchObject({
      session: { origin: "main", turns: 0, lastUsedAt: null },
      queued: [{ id: "sev_1", source: "wake" }],
    });
    expect((await ask(world, "DELETE", "/sessions?key=main")).body.error?.code).toBe("usage");
  });
});

describe("the steps of a run", () => {
  const kept = async (): Promise<string> => {
    const action = runAction();
    await world.store.accept(event_("shop", { outcome: "accepted", actions: [action] }));
    return action.runId;
  };

  it("are shown with their calls, and what people decided", async () => {
    const [id, other] = [await kept(), await kept()];
    await actIn(world.store, id);
    expect(await got((api) => api.runs[":id"].steps.$get({ param: { id } }))).toMatchObject({
      steps: shownSteps(id),
    });
    expect(
      (await got((api) => api.runs[":id"].steps.$get({ param: { id: other } }))).steps,
    ).toEqual([]);
    expect(await ask(world, "GET", "/runs/run_none/steps")).toMatchObject({
      status: 404,
      body: { error: { code: "not_found" } },
    });
  });

  it("are open to those who wait for a person, and such runs are found by their status", async () => {
    const [id] = [await kept(), await kept()];
    await actIn(world.store, id);
    const { runs } = await got((api) => api.runs.$get({ query: { status: "waiting" } }));
    expect(runs).toMatchObject([
      {
        id,
        status: "waiting",
        waitsFor: {
          reason: "person",
          approvalIds: [`apr_${id}_2`],
          since: "2026-01-05T12:00:03.000Z",
        },
      },
    ]);
    expect((await got((api) => api.status.$get())).status.counts).toMatchObject({
      "runs.waiting": 1,
      "approvals.open": 1,
      "approvals.decided": 1,
    });
    const check = (await got((api) => api.doctor.$get())).checks.find(
      (one) => one.id === "approvals",
    );
    expect(check).toMatchObject({
      status: "warn",
      message: expect.stringMatching(
        /^calls that wait for approval: 1; .*`rouse approvals`/,
      ) as string,
    });
  });

  it("have results that can be read whole, of the same run alone", async () => {
    const [id, other] = [await kept(), await kept()];
    await actIn(world.store, id);
    const { result } = await got((api) =>
      api.runs[":id"].results[":result"].$get({ param: { id, result: `res_${id}` } }),
    );
    expect(result).toMatchObject({ id: `res_${id}`, runId: id });
    expect([result.text.length, result.text.endsWith("the end")]).toEqual([117_025, true]);
    expect(await ask(world, "GET", `/runs/${other}/results/res_${id}`)).toMatchObject({
      status: 404,
    });
  });
});

describe("the gateway itself", () => {
  it("gives away no secret in config, mappings and status", async () => {
    for (const path of [
      "/config",
      "/mappings",
      "/status",
      "/doctor",
      "/channels",
      "/plugins",
      "/agents",
    ]) {
      const response = await world.request(path);
      expect([path, response.status]).toEqual([path, 200]);
      const text = await response.text();
      expect(text).not.toContain(TOKEN);
      expect(text).not.toContain("canary");
    }
    expect((await got((api) => api.mappings.$get())).paths).toEqual([
      { path: "shop", methods: ["POST"], auth: "token", allowIps: null, maxBodyBytes: 1000 },
    ]);
  });

  it("tells why a reload failed, and shows refusals newest first", async () => {
    world.write("rouse.json5", BROKEN);
    const reload = await ask(world, "POST", "/reload");
    expect([reload.status, reload.body.error?.issues]).toMatchObject([
      400,
      [{ path: "hooks.path" }],
    ]);
    await world.post("/hooks/wake", {}, { authorization: "" });
    await world.post("/hooks/wake", {}, { authorization: "Bearer wrong" });
    expect((await got((api) => api.refusals.$get({ query: { limit: "1" } }))).refusals).toEqual([
      {
        at: expect.stringMatching(/^20/),
        address: "127.0.0.1",
        path: "wake",
        reason: "wrong_token",
        authenticated: false,
      },
    ]);
  });

  it("answers malformed JSON with 400", async () => {
    const response = await world.request("/changes/check", { method: "POST", body: "{" });
    expect([
      response.status,
      ((await response.json()) as { error: { code: string } }).error.code,
    ]).toEqual([400, "invalid_json"]);
  });
});

describe("doctor", () => {
  const statusOf = async (id: string) =>
    (await got((api) => api.doctor.$get())).checks.find((check) => check.id === id)?.status;

  it("finds nothing wrong but what the hook token may do, the missing model and limits, and the channel that cannot be reached", async () => {
    const probe = () => Promise.reject(new Error("canary-probe"));
    const down = definePlugin({
      id: "down",
      config: z.strictObject({}),
      channel: () => ({ defaultTo: "owner", send: async () => ({ status: "sent" }), probe }),
    });
    await reopen({ config: { channels: { down: {} } }, plugins: [down] });
    const { checks } = await got((api) => api.doctor.$get());
    expect(JSON.stringify(checks)).not.toContain("canary");
    const notWell = checks.filter((check) => check.status !== "ok").map((check) => check.id);
    expect(notWell).toEqual(["hook-token", "model", "limits", "channel:down"]);
    await reopen({ config: { hooks: { allowRequestSessionKey: false } } });
    expect(await statusOf("hook-token")).toBe("ok");
  });

  it("finds failed runs, parked system events and files that others can read", async () => {
    const action = runAction();
    await world.store.accept(event_("shop", { outcome: "accepted", actions: [action] }));
    await world.store.commit((tx) => {
      tx.runs.update(action.runId, { status: "failed" });
      tx.systemEvents.add({
        id: "sev_1",
        agentId: "main",
        at: 5,
        text: [],
        source: "wake",
        mode: "now",
        unsafe: false,
      });
      tx.systemEvents.update(["sev_1"], { state: "parked" });
    });
    const { chmod } = await import("node:fs/promises");
    await chmod(world.dir, 0o755);
    expect([
      await statusOf("runs"),
      await statusOf("system-events"),
      await statusOf("file-modes"),
    ]).toEqual(["warn", "warn", "warn"]);
  });

  it("fails where the config on disk is broken or the store takes no writes", async () => {
    world.write("rouse.json5", BROKEN);
    await ask(world, "POST", "/reload");
    const db = new DatabaseSync(join(world.dir, "rouse.db"));
    db.exec(
      "CREATE TRIGGER full BEFORE INSERT ON meta BEGIN SELECT RAISE(ABORT, 'canary: disk full'); END",
    );
    db.close();
    const { checks } = await got((api) => api.doctor.$get());
    expect(checks.filter((check) => check.status === "fail").map((check) => check.id)).toEqual([
      "config",
      "store",
    ]);
    expect(JSON.stringify(checks)).not.toContain("canary");
  });

  /** Makes the events older by so much. */
  const age = (ms: number): void => {
    const db = new DatabaseSync(join(world.dir, "rouse.db"));
    db.exec(`UPDATE events SET at = at - ${ms}`);
    db.close();
  };

  it("notices a body that is kept for more than a day longer than retention", async () => {
    const day = 86_400_000;
    await world.store.accept(event_("shop", { receivedAt: Date.now() }));
    age(RETENTION_MS + day - 60_000);
    expect(await statusOf("bodies")).toBe("ok");
    age(120_000);
    expect(await statusOf("bodies")).toBe("fail");
    const { checks } = await got((api) => api.doctor.$get());
    expect(checks.find(({ id }) => id === "bodies")?.message).toContain(
      "1 day longer than hooks.retention",
    );
  });
});
