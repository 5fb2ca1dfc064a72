import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";

const hook = (id: string, more: object = {}, match: object = {}) => ({
  id,
  match: { path: id, ...match },
  messageTemplate: "got {{n}}",
  ...more,
});

let world: World;
beforeAll(async () => {
  world = await createWorld({
    logLevel: "warn",
    workers: false,
    files: {
      "transforms/maybe.ts": `export default ({ payload }) => {
        if (payload.how === "skip") return null;
        if (payload.how === "throw") throw new Error("canary-thrown");
        if (payload.how === "field") return { message: "m", allowUnsafeExternalContent: true };
        if (payload.how === "list") return [{ message: "one" }, { action: "wake", text: "two" }, { message: "three", agentId: "nobody" }];
        return { message: "m", sessionKey: payload.key };
      };`,
      "mappings/order.schema.json": {
        type: "object",
        required: ["id"],
        properties: { id: { type: "integer" } },
      },
    },
    config: {
      hooks: {
        maxActions: 3,
        presets: [{ use: "grafana", auth: "token", enabled: false }],
        mappings: [
          hook("run", { sessionKey: "hook:run:{{n}}", name: "Run {{n}}" }),
          hook("strict", { strict: true }),
          hook("empty", { messageTemplate: "{{n}}" }),
          {
            id: "ring",
            match: { path: "ring" },
            action: "wake",
            textTemplate: "ring {{n}}",
            wakeMode: "next-heartbeat",
          },
          hook("each", {
            forEach: "items",
            messageTemplate: "item {{item.id}}",
            agentId: "{{ item.agent ? item.agent : 'main' }}",
          }),
          hook("keyed", {
            forEach: "items",
            messageTemplate: "item {{item.id}}",
            dedupeKey: "{{item.id}}",
          }),
          hook("both-a", { continue: true }, { path: "both" }),
          { id: "both-b", match: { path: "both" }, action: "wake", textTemplate: "both {{n}}" },
          { id: "transformed", match: { path: "transformed" }, transform: { module: "maybe.ts" } },
          hook("checked", { validate: "order.schema.json" }),
          hook("failing", { messageTemplate: "{{ $number(n) }}" }),
          hook("picky", {}, { payload: { kind: "order", secret: "expected-value-4711" } }),
          hook("when", {}, { when: "n > 10" }),
          hook("text", { messageTemplate: "got {{payload}}" }),
          hook("linked", { messageTemplate: "https://x/?q={{ $encodeUrlComponent(q) }}" }),
          hook("pushed", {
            messageTemplate: "{{ $base64decode(data) }} {{ $base64encode(text) }}",
          }),
          hook("off", { enabled: false, auth: { token: "the-token-of-this-path-0123" } }),
        ],
      },
    },
  });
});
afterAll(() => world.stop());

const runOf = async (id: string) => (await world.admin(`/admin/v1/runs/${id}`)).body.run;
const eventOf = async (id: string) => (await world.get(`/hooks/events/${id}`)).body.event;

describe("the outcomes of a mapped hook", () => {
  it("an agent run: 202, where to look, and what became of it", async () => {
    const answer = await world.post("/hooks/run", { n: "a:b" });
    expect([answer.status, answer.body]).toEqual([
      202,
      {
        ok: true,
        eventId: expect.any(String),
        runId: expect.any(String),
        sessionKey: "hook:run:a%3Ab",
        status: "queued",
        mapping: "run",
      },
    ]);
    expect(answer.headers.get("location")).toBe(`/hooks/runs/${answer.body.runId}`);
    expect(await eventOf(answer.body.eventId)).toMatchObject({
      outcome: "accepted",
      mapping: "run",
      path: "run",
    });
  });

  it("a session key encodes line breaks and other control characters of a value", async () => {
    const { status, body } = await world.post("/hooks/run", {
      n: "Re: lost\r\n order\t7\u0000\ud83d",
    });
    expect([status, body.sessionKey]).toEqual([
      202,
      "hook:run:Re%3A lost%0D%0A order%097%00\ufffd",
    ]);
  });

  it("$base64decode and $base64encode read and write UTF-8", async () => {
    const data = Buffer.from("Größe 世界 🙂").toString("base64");
    const { body } = await world.post("/hooks/pushed", { data, text: "世界 é" });
    const { input } = await runOf(body.runId);
    expect(JSON.stringify(input)).toContain("Größe 世界 🙂");
    expect(JSON.stringify(input)).toContain(Buffer.from("世界 é").toString("base64"));
  });

  it("$encodeUrlComponent takes a text that was cut in the middle of a character", async () => {
    const { status, body } = await world.post("/hooks/linked", { q: "Lunch \ud83c" });
    expect(status).toBe(202);
    expect(JSON.stringify((await runOf(body.runId)).input)).toContain("Lunch%20%EF%BF%BD");
  });

  it("several items: each has its own result, and a bad one stands alone", async () => {
    const { status, body } = await world.post("/hooks/each", {
      items: [{ id: 1 }, { id: 2, agent: "nobody" }, { id: 3 }],
    });
    expect(status).toBe(202);
    expect(body.results).toMatchObject([
      { ok: true, mapping: "each" },
      { ok: false, index: 1, error: { code: "unknown_agent" } },
      { ok: true },
    ]);
    const event = await eventOf(body.eventId);
    expect(event.actions).toHaveLength(2);
    expect(event.reason).toMatch(/^1 of 3 actions failed: action 2: .*agents\.list/);
  });

  it("one item: still the form of several", async () => {
    expect((await world.post("/hooks/each", { items: [{ id: 1 }] })).body.results).toHaveLength(1);
  });

  it("all items bad: their error, and nothing runs", async () => {
    const { status, body } = await world.post("/hooks/each", {
      items: [
        { id: 1, agent: "nobody" },
        { id: 2, agent: "none" },
      ],
    });
    expect([status, body.error.code]).toEqual([400, "unknown_agent"]);
    expect(await eventOf(body.requestId)).toMatchObject({ outcome: "rejected", actions: [] });
  });

  it("more items than hooks.maxActions: 413, and nothing runs", async () => {
    const { status, body } = await world.post("/hooks/each", {
      items: [1, 2, 3, 4].map((id) => ({ id })),
    });
    expect([status, body.error.code]).toEqual([413, "body_too_large"]);
    expect(await eventOf(body.requestId)).toMatchObject({ outcome: "rejected", actions: [] });
  });

  it("no items: 204, recorded as skipped", async () => {
    const { status, headers } = await world.post("/hooks/each", { items: [] });
    expect(status).toBe(204);
    expect(await eventOf(headers.get("x-request-id") ?? "")).toMatchObject({
      outcome: "skipped",
      mapping: "each",
      reason: expect.stringContaining("no items"),
    });
  });

  it("continue: both mappings act, in one answer", async () => {
    const { status, body } = await world.post("/hooks/both", { n: 1 });
    expect([status, body.results.map((one: { mapping: string }) => one.mapping)]).toEqual([
      202,
      ["both-a", "both-b"],
    ]);
  });

  it.each([
    ["skip", 204, "skipped"],
    ["throw", 500, "failed"],
    ["field", 500, "failed"],
    ["list", 202, "accepted"],
    ["plain", 202, "accepted"],
  ])("a transform that does %s: %i, recorded as %s", async (how, status, outcome) => {
    const answer = await world.post("/hooks/transformed", { how });
    expect(answer.status).toBe(status);
    expect(await eventOf(answer.headers.get("x-request-id") ?? "")).toMatchObject({
      outcome,
      mapping: "transformed",
    });
    if (status === 500) {
      expect(answer.body.error.code).toBe("transform_failed");
      expect(JSON.stringify(answer.body)).not.toMatch(/canary|\bat /);
      const line = world.logged.find((one) =>
        one.includes(answer.headers.get("x-request-id") ?? ""),
      );
      expect(JSON.parse(line ?? "{}")).toMatchObject({
        path: "transformed",
        mapping: "transformed",
        code: "transform_failed",
        msg: expect.stringContaining("rouse explain"),
      });
      expect(line).not.toContain("canary");
    }
    if (how === "field") expect(answer.body.error.message).toContain("allowUnsafeExternalContent");
    if (how === "list")
      expect(answer.body.results).toMatchObject([
        { ok: true },
        { ok: true, mode: "now" },
        { ok: false, error: { code: "unknown_agent" } },
      ]);
  });

  it("a transform's fields are checked like a request's", async () => {
    const { status, body } = await world.post("/hooks/transformed", { how: "key", key: "main" });
    expect([status, body.error.code]).toEqual([400, "session_key_not_allowed"]);
  });

  it("validate: 400 with the paths", async () => {
    const { status, body } = await world.post("/hooks/checked", { id: "x" });
    expect([status, body.error.code, body.error.issues]).toEqual([
      400,
      "validation_failed",
      [{ path: "id", message: expect.stringContaining("integer") }],
    ]);
    expect((await world.post("/hooks/checked", { id: 1 })).status).toBe(202);
  });

  it("an expression that fails: 500, and no later mapping is tried", async () => {
    const { status, body } = await world.post("/hooks/failing", { n: "canary-number" });
    expect([status, body.error.code]).toEqual([500, "mapping_failed"]);
    expect(JSON.stringify(body)).not.toContain("canary");
    expect(await eventOf(body.requestId)).toMatchObject({ outcome: "failed", mapping: "failing" });
  });

  it.each([
    ["empty", {}, "message"],
    ["strict", {}, "n"],
  ])("a required text that is missing (%s): 400 with the field", async (path, payload, field) => {
    const { status, body } = await world.post(`/hooks/${path}`, payload);
    expect([status, body.error.code]).toEqual([400, "mapping_incomplete"]);
    expect(JSON.stringify(body.error)).toContain(field);
  });

  it("a missing field is in the receipt if it is no error", async () => {
    const { body } = await world.post("/hooks/run", {});
    expect((await eventOf(body.eventId)).missing).toEqual(["n"]);
  });

  it("no mapping matches on a path of a mapping: 200 with the one that came closest, and never what it expects", async () => {
    const { status, body } = await world.post("/hooks/picky", { kind: "order", secret: "wrong" });
    const nearest = { mapping: "picky", condition: "match.payload.secret" };
    expect([status, body]).toEqual([
      200,
      { ok: true, eventId: expect.any(String), outcome: "unmatched", nearest },
    ]);
    expect(JSON.stringify(body)).not.toContain("expected-value");
    expect((await world.post("/hooks/when", { n: 1 })).body.nearest).toEqual({
      mapping: "when",
      condition: "match.when",
    });
    const recorded = {
      outcome: "unmatched",
      actions: [],
      reason: expect.stringContaining('"picky", whose match.payload.secret'),
    };
    expect(await eventOf(body.eventId)).toMatchObject(recorded);
    // The operator is shown at least what the sender is.
    const { event } = (await world.admin(`/admin/v1/events/${body.eventId}`)).body;
    expect(event).toMatchObject({ ...recorded, nearest });
    expect(JSON.stringify(event.reason)).not.toContain("expected-value");
  });

  it("no mapping matches, and none names the path: 404", async () => {
    const { status, body } = await world.post("/hooks/nowhere", {});
    expect([status, body.error.code, body.error.nearest]).toEqual([404, "no_mapping", undefined]);
    expect(await eventOf(body.requestId)).toMatchObject({ outcome: "unmatched", actions: [] });
  });

  it("a disabled mapping or preset takes nothing, and keeps its path with the path's authentication", async () => {
    expect((await world.post("/hooks/off", { n: 1 })).status).toBe(401);
    const { status, body } = await world.post(
      "/hooks/off",
      { n: 1 },
      { authorization: "Bearer the-token-of-this-path-0123" },
    );
    expect([status, body]).toMatchObject([
      200,
      { outcome: "unmatched", nearest: { mapping: "off", condition: "enabled" } },
    ]);
    expect((await world.post("/hooks/grafana", {})).body).toMatchObject({
      ok: true,
      outcome: "unmatched",
    });
  });

  it("text that a mapping reads as text stays text, and what is missing for it says how the body came", async () => {
    const text = { "content-type": "text/plain" };
    const list = await world.post("/hooks/text", '[{"n":1}]', text);
    expect((await runOf(list.body.runId)).input.at(-1).text).toBe('[{"n":1}]');
    const words = await world.post("/hooks/text", '"only words"', text);
    expect((await runOf(words.body.runId)).input.at(-1).text).toBe('"only words"');
    const came = "the body came as text/plain and is text, which has no fields: send a JSON object";
    expect((await world.post("/hooks/strict", "words", text)).body.error.message).toContain(came);
    expect((await world.post("/hooks/checked", "words", text)).body.error.message).toContain(came);
    const { body } = await world.post("/hooks/picky", "words", text);
    expect((await eventOf(body.eventId)).reason).toContain(came);
    expect((await world.post("/hooks/strict", {})).body.error.message).not.toContain("came as");
  });

  it("a transform's field of the wrong type is recorded with its reason", async () => {
    const reason = "the action has a wrong sessionKey: must be text, and is a number";
    const { body } = await world.post("/hooks/transformed", { key: 7 });
    expect(body.error.message).toBe(reason);
    expect(await eventOf(body.requestId)).toMatchObject({ outcome: "rejected", reason });
  });

  it("a redelivery of an unmatched event is tried again", async () => {
    const first = await world.post(
      "/hooks/picky",
      { kind: "order" },
      { "idempotency-key": "unmatched-1" },
    );
    const second = await world.post(
      "/hooks/picky",
      { kind: "order" },
      { "idempotency-key": "unmatched-1" },
    );
    expect([second.status, second.headers.get("idempotent-replayed")]).toEqual([200, null]);
    expect(second.body.eventId).not.toBe(first.body.eventId);
  });

  it("dedupeKey: finished actions answer with their first id, the rest is executed", async () => {
    const first = await world.post("/hooks/keyed", { items: [{ id: 1 }, { id: 2 }] });
    const second = await world.post("/hooks/keyed", { items: [{ id: 2 }, { id: 3 }, { id: 3 }] });
    expect(second.body.results).toMatchObject([
      { runId: first.body.results[1].runId, duplicate: true },
      { ok: true },
      { runId: second.body.results[1].runId, duplicate: true },
    ]);
    expect(second.body.results[1].duplicate).toBeUndefined();
    const third = await world.post("/hooks/keyed", { items: [{ id: 1 }] });
    expect(await eventOf(third.body.eventId)).toMatchObject({ outcome: "duplicate", actions: [] });
  });
});

it("a mapping without a path owns every path of requests by the hook token, also while it is disabled", async () => {
  const anywhere = (enabled: boolean) => ({
    id: "any",
    match: { payload: { kind: "order" } },
    messageTemplate: "x",
    enabled,
  });
  for (const enabled of [true, false]) {
    const own = await createWorld({
      start: false,
      workers: false,
      config: { hooks: { mappings: [anywhere(enabled)] } },
    });
    const { status, body } = await own.post("/hooks/some/path", { kind: "other" });
    expect([status, body]).toMatchObject([
      200,
      { outcome: "unmatched", nearest: { mapping: "any", condition: "match.payload.kind" } },
    ]);
    expect((await own.post("/hooks/some/path", { kind: "order" })).status).toBe(
      enabled ? 202 : 200,
    );
    await own.stop();
  }
});

it("outcomes: their sum is the number of recorded events", async () => {
  const own = await createWorld({
    workers: false,
    config: {
      hooks: {
        mappings: [
          hook("a", {}, { payload: { n: 1 } }),
          hook("f", { messageTemplate: "{{ $number(n) }}" }),
        ],
      },
    },
  });
  await own.post("/hooks/a", { n: 1 });
  await own.post("/hooks/a", { n: 1 }, { "idempotency-key": "k" });
  await own.post("/hooks/a", { n: 1 }, { "idempotency-key": "k" });
  await own.post("/hooks/a", { n: 1, more: true }, { "idempotency-key": "k" });
  await own.post("/hooks/a", { n: 2 });
  await own.post("/hooks/f", { n: "x" });
  await own.post("/hooks/a", "{");
  await own.post("/hooks/wake", { text: "x" });
  const metrics = String((await own.admin("/metrics")).body);
  const counted = [...metrics.matchAll(/^rouse_hooks_total\{[^}]*outcome="(\w+)"[^}]*\} (\d+)$/gm)];
  const sums = Object.fromEntries(
    ["accepted", "duplicate", "rejected", "unmatched", "failed"].map((outcome) => [
      outcome,
      counted.filter((one) => one[1] === outcome).reduce((sum, one) => sum + Number(one[2]), 0),
    ]),
  );
  expect(sums).toEqual({ accepted: 3, duplicate: 1, rejected: 2, unmatched: 1, failed: 1 });
  const { body } = await own.admin("/admin/v1/events?limit=100");
  expect(body.events).toHaveLength(8);
  await own.stop();
});
