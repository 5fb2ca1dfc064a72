import { createHmac } from "node:crypto";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { renderAnswer } from "../../src/http/hooks.ts";
import type { DeniedRequest } from "../../src/intake/types.ts";
import {
  createIntakeWorld,
  FROM_HTTP,
  INTERNAL,
  receiptOf,
  SOURCE,
  TOKEN,
  type IntakeWorld,
} from "./world.ts";

const PATH_TOKEN = "the-token-of-this-path-0123456789";
const SECRET = "a-signing-secret-0123456789";
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

let world: IntakeWorld;
beforeAll(async () => {
  world = await createIntakeWorld(
    {
      maxBodyBytes: 2000,
      presets: [{ use: "github", secret: SECRET }],
      limits: { queue: 50 },
      mappings: [
        {
          id: "order",
          match: { path: "order", payload: { kind: "order" } },
          messageTemplate: "order {{n}}",
          sessionKey: "hook:order:{{n}}",
        },
        {
          id: "each",
          match: { path: "each" },
          forEach: "items",
          messageTemplate: "item {{item.id}}",
          dedupeKey: "{{item.id}}",
        },
        { id: "shadow", match: { path: "shadow" }, shadow: true, messageTemplate: "{{n}}" },
        {
          id: "gently",
          match: { path: "gently" },
          auth: { scheme: "shopify", secret: SECRET },
          messageTemplate: "{{ $number(n) }}",
        },
        { id: "failing", match: { path: "failing" }, messageTemplate: "{{ $number(n) }}" },
        {
          id: "own",
          match: { path: "own" },
          auth: { token: PATH_TOKEN },
          allowIps: ["198.51.100.0/24"],
          messageTemplate: "own {{n}}",
          sessionKey: "hook:own",
        },
        {
          id: "search",
          match: { path: "search" },
          methods: ["GET"],
          messageTemplate: "found {{q}}",
          dedupeKey: "{{q}}",
        },
        {
          id: "dropped",
          match: { path: "dropped", payload: { event: "x" } },
          auth: { scheme: "dropbox", secret: SECRET },
          messageTemplate: "d",
        },
      ],
    },
    {},
  );
});
afterAll(() => world.close());

const eventOf = async (id: string) => {
  const event = await world.store.events.get(id);
  if (!event) throw new Error("the event is not recorded");
  return event;
};
const counts = async () => (await world.store.events.list({ limit: 1000 })).length;

describe("each outcome, without HTTP", () => {
  it("accepted: the receipt names the work that is on disk", async () => {
    const wake = receiptOf(await world.receive("wake", { text: "hello", odd: 1 }));
    expect(wake).toMatchObject({
      outcome: "accepted",
      actions: [{ ok: true, mode: "now", systemEventId: expect.stringMatching(/^sev_/) }],
      warnings: ['the field "odd" is not known and was ignored'],
    });
    expect(await eventOf(wake.eventId)).toMatchObject({
      path: "wake",
      credential: "hooks.token",
      outcome: "accepted",
    });
    const run = receiptOf(await world.receive("order", { kind: "order", n: 7 }));
    expect(run).toMatchObject({ outcome: "accepted", mapping: "order", list: false });
    expect(run.actions).toEqual([
      {
        ok: true,
        runId: expect.any(String),
        sessionKey: "hook:order:7",
        status: "queued",
        mapping: "order",
      },
    ]);
    expect((await eventOf(run.eventId)).actions).toMatchObject([
      { kind: "run", runId: (run.actions[0] as { runId: string }).runId },
    ]);
  });

  it("accepted: a GET whose path takes it, and a body that comes as a stream", async () => {
    const get = await world.receive("search", "", {
      input: { method: "GET", query: { q: "cats" }, body: null },
    });
    expect(receiptOf(get)).toMatchObject({ outcome: "accepted", mapping: "search" });
    const body = Readable.from([Buffer.from('{"text":'), Buffer.from('"in parts"}')]);
    expect(receiptOf(await world.receive("wake", "", { input: { body } })).outcome).toBe(
      "accepted",
    );
  });

  it("skipped: with and without something to tell", async () => {
    const shadow = receiptOf(await world.receive("shadow", { n: 1 }));
    expect(shadow).toMatchObject({
      outcome: "skipped",
      mapping: "shadow",
      actions: [],
      quiet: false,
    });
    expect(shadow.reason).toContain("1 action would have been done");
    const empty = receiptOf(await world.receive("each", { items: [] }));
    expect(empty).toMatchObject({ outcome: "skipped", quiet: true });
    expect([renderAnswer(shadow).status, renderAnswer(empty).status]).toEqual([200, 204]);
  });

  it("unmatched: with the closest mapping; and a path that nobody owns", async () => {
    const near = receiptOf(await world.receive("order", { kind: "refund" }));
    expect(near).toMatchObject({
      outcome: "unmatched",
      nearest: { mapping: "order", condition: "match.payload.kind" },
    });
    expect(near.error).toBeUndefined();
    const nobody = receiptOf(await world.receive("nobody", {}));
    expect(nobody).toMatchObject({ outcome: "unmatched", error: { code: "no_mapping" } });
    expect((await eventOf(nobody.eventId)).status).toBe(404);
  });

  it("duplicate: the receipt holds the first one, and its answer is the first answer", async () => {
    const headers = { "idempotency-key": "k-1" };
    const first = receiptOf(await world.receive("order", { kind: "order", n: 8 }, { headers }));
    const again = receiptOf(await world.receive("order", { kind: "order", n: 8 }, { headers }));
    expect(again).toMatchObject({
      outcome: "duplicate",
      repeats: { eventId: first.eventId, receipt: { outcome: "accepted" } },
    });
    const { status, body } = renderAnswer(first);
    expect(renderAnswer(again)).toMatchObject({ status, body });
    expect(await eventOf(again.eventId)).toMatchObject({
      outcome: "duplicate",
      duplicateOf: first.eventId,
      reason: `a repeat of ${first.eventId}: the idempotency key is the same, which counts for 24 h; \`rouse events replay ${again.eventId}\` does it again`,
    });
    const [left, right] = await Promise.all(
      [1, 2].map(() => world.receive("wake", { text: "same", idempotencyKey: "k-2" })),
    );
    expect(
      [receiptOf(left as never).outcome, receiptOf(right as never).outcome].toSorted(),
    ).toEqual(["accepted", "duplicate"]);
  });

  it("duplicate: single actions, by their keys", async () => {
    const first = receiptOf(await world.receive("each", { items: [{ id: 1 }, { id: 2 }] }));
    const second = receiptOf(
      await world.receive("each", { items: [{ id: 2 }, { id: 3 }, { id: 3 }] }),
    );
    expect(second).toMatchObject({
      outcome: "accepted",
      actions: [{ ...first.actions[1], duplicate: true }, { ok: true }, { duplicate: true }],
    });
    expect((await eventOf(second.eventId)).actions).toHaveLength(1);
    const third = receiptOf(await world.receive("each", { items: [{ id: 1 }] }));
    expect(third).toMatchObject({
      outcome: "duplicate",
      reason: `a repeat of ${first.eventId}: its actions have the same \`dedupeKey\`, which counts for 24 h; \`rouse events replay ${third.eventId}\` does it again`,
    });
    expect(third.repeats).toBeUndefined();
  });

  it("rejected: recorded, with the status of its code", async () => {
    const cases: [Parameters<IntakeWorld["receive"]>, string, number][] = [
      [["wake", "{not json"], "invalid_json", 400],
      [["wake", { text: " " }], "invalid_body", 400],
      [["wake", "x", { headers: { "content-encoding": "lz4" } }], "unsupported_media_type", 415],
      [["wake", { text: "a", idempotencyKey: "" }], "invalid_body", 400],
      [
        ["order", { kind: "order", n: 9 }, { headers: { "idempotency-key": "k-1" } }],
        "idempotency_conflict",
        409,
      ],
    ];
    for (const [args, code, status] of cases) {
      const receipt = receiptOf(await world.receive(...args));
      expect(receipt).toMatchObject({ outcome: "rejected", error: { code }, actions: [] });
      expect(await eventOf(receipt.eventId)).toMatchObject({ outcome: "rejected", status });
    }
    const large = receiptOf(await world.receive("wake", { text: "x".repeat(3000) }));
    expect(large).toMatchObject({
      outcome: "rejected",
      error: { code: "body_too_large" },
      hints: { bodyUnread: true },
    });
  });

  it("failed: its mapping failed; a sender that disables hooks is told success", async () => {
    const failed = receiptOf(await world.receive("failing", { n: "seven" }));
    expect(failed).toMatchObject({
      outcome: "failed",
      mapping: "failing",
      error: { code: "mapping_failed" },
    });
    expect((await eventOf(failed.eventId)).status).toBe(500);
    expect(await world.metrics()).toContain('rouse_hooks_total{path="failing",outcome="failed"} 1');
    const gently = receiptOf(await world.receive("gently", { n: "seven" }, { origin: SOURCE }));
    expect(gently).toMatchObject({
      outcome: "failed",
      acknowledged: true,
      error: { code: "mapping_failed" },
    });
    expect(renderAnswer(gently)).toMatchObject({
      status: 200,
      body: { ok: true, eventId: gently.eventId, outcome: "failed" },
    });
    expect((await eventOf(gently.eventId)).status).toBeUndefined();
    expect(world.logged.join("")).toContain("its sender was acknowledged");
  });

  it("denied: not recorded, but counted and kept in memory", async () => {
    const before = await counts();
    const denied = async (...args: Parameters<IntakeWorld["receive"]>): Promise<DeniedRequest> => {
      const received = await world.receive(...args);
      expect(received.kind).toBe("denied");
      return received as DeniedRequest;
    };
    const origin = FROM_HTTP;
    expect((await denied("wake", { text: "a" }, { origin })).error.code).toBe("unauthorized");
    expect(
      (await denied("own", { n: 1 }, { origin, headers: bearer(PATH_TOKEN) })).error.code,
    ).toBe("address_not_allowed");
    expect((await denied("github", {}, { origin, headers: bearer(TOKEN) })).error.code).toBe(
      "unauthorized",
    );
    expect(await denied("wake", "", { input: { method: "GET" } })).toMatchObject({
      error: { code: "method_not_allowed" },
      hints: { methods: ["POST"] },
    });
    expect(await denied("search", "", { input: { method: "PUT" } })).toMatchObject({
      hints: { methods: ["GET", "POST"] },
    });
    expect(world.intake.denials.list().slice(-3)).toMatchObject([
      { address: "203.0.113.7", path: "wake", reason: "no_token", authenticated: false },
      { path: "own", reason: "address" },
      { path: "github", reason: "signature_no_signature" },
    ]);
    for (let i = 0; i < 20; i++) await denied("wake", {}, { origin });
    expect((await denied("wake", {}, { origin })).error).toMatchObject({
      code: "rate_limited",
      retryAfterSeconds: expect.any(Number),
    });
    world.setDraining(true);
    expect((await denied("wake", { text: "a" })).error.code).toBe("draining");
    world.setDraining(false);
    expect(await counts()).toBe(before);
  });

  it("a handshake is answered and not recorded", async () => {
    const before = await counts();
    const input = { method: "GET", query: { challenge: "abc" }, body: null };
    expect(await world.receive("dropped", "", { origin: FROM_HTTP, input })).toMatchObject({
      kind: "handshake",
      answer: { body: "abc" },
    });
    expect(await counts()).toBe(before);
  });

  it("a store that cannot keep it: denied, and counted as unrecorded", async () => {
    const broken = await createIntakeWorld();
    await broken.store.close();
    const denied = await broken.receive("wake", { text: "a" });
    expect(denied).toMatchObject({
      kind: "denied",
      error: { code: expect.stringMatching(/^(?:store_unavailable|internal)$/) },
    });
    expect(await broken.metrics()).toContain(
      'rouse_hooks_total{path="wake",outcome="unrecorded"} 1',
    );
    await broken.close();
  });
});

describe("an origin that has proved itself elsewhere", () => {
  it("counts as a caller of the path: its credential, session and duplicate keys", async () => {
    const headers = { ...bearer(PATH_TOKEN), "idempotency-key": "own-1" };
    const origin = { kind: "http" as const, address: "198.51.100.9" };
    const caller = receiptOf(await world.receive("own", { n: 1 }, { origin, headers }));
    for (const elsewhere of [SOURCE, INTERNAL]) {
      const receipt = receiptOf(await world.receive("own", { n: 2 }, { origin: elsewhere }));
      expect(receipt.outcome).toBe("accepted");
      const [left, right] = [await eventOf(caller.eventId), await eventOf(receipt.eventId)];
      expect([right.credential, right.address]).toEqual(["path:own", "127.0.0.1"]);
      const session = (event: typeof left) =>
        event.actions.map((action) => action.kind === "run" && action.spec.session);
      expect(session(right)).toEqual(session(left));
      const repeat = await world.receive(
        "own",
        { n: 1 },
        { origin: elsewhere, headers: { "idempotency-key": "own-1" } },
      );
      expect(receiptOf(repeat)).toMatchObject({
        outcome: "duplicate",
        repeats: { eventId: caller.eventId },
      });
    }
    expect(world.intake.hasCredential(bearer(PATH_TOKEN), "path:own")).toBe(true);
    expect(world.intake.hasCredential(bearer(TOKEN), "path:own")).toBe(false);
  });

  it("needs no signature", async () => {
    const receipt = receiptOf(await world.receive("dropped", { event: "x" }, { origin: SOURCE }));
    expect(receipt).toMatchObject({ outcome: "accepted", mapping: "dropped" });
    expect((await eventOf(receipt.eventId)).credential).toBe("path:dropped");
    const signature = createHmac("sha256", SECRET).update('{"event":"x"}').digest("hex");
    const signed = await world.receive(
      "dropped",
      { event: "x" },
      { origin: FROM_HTTP, headers: { "x-dropbox-signature": signature } },
    );
    expect((await eventOf(receiptOf(signed).eventId)).credential).toBe("path:dropped");
    expect(world.intake.signatures().find(({ path }) => path === "dropped")?.last).toMatchObject({
      secret: 0,
      of: 1,
    });
  });

  it("on a path without authentication of its own it counts as a caller with the hook token", async () => {
    const receipt = receiptOf(
      await world.receive("agent", { message: "hi", sessionKey: "hook:same" }, { origin: SOURCE }),
    );
    expect(await eventOf(receipt.eventId)).toMatchObject({ credential: "hooks.token" });
  });
});

describe("a replay", () => {
  it("takes the recorded event through the current mappings, past its keys; a dry run keeps nothing", async () => {
    const first = receiptOf(
      await world.receive(
        "each",
        { items: [{ id: "r1" }] },
        { headers: { "idempotency-key": "r" } },
      ),
    );
    const before = await counts();
    const dry = await world.intake.replay(first.eventId, { dryRun: true });
    expect(dry).toMatchObject({
      ok: true,
      result: {
        outcome: "accepted",
        actions: [{ kind: "run", summary: "item r1", mapping: "each" }],
      },
    });
    expect(await counts()).toBe(before);
    const real = await world.intake.replay(first.eventId, { dryRun: false });
    if (!real.ok) throw new Error("the replay failed");
    const event = await eventOf(real.result.newEventId as string);
    expect(event).toMatchObject({
      outcome: "accepted",
      replayOf: first.eventId,
      credential: "hooks.token",
    });
    expect(event.actions).toHaveLength(1);
    expect(real.result.actions[0]?.id).toBe((event.actions[0] as { runId: string }).runId);
    expect(await world.intake.replay("evt_unknown", { dryRun: false })).toMatchObject({
      ok: false,
      failure: { code: "not_found" },
    });
  });

  it("tells what was recorded of an event that is wrong", async () => {
    const wrong = receiptOf(await world.receive("wake", "{not json"));
    for (const dryRun of [true, false]) {
      const replayed = await world.intake.replay(wrong.eventId, { dryRun });
      expect(replayed).toMatchObject({
        ok: true,
        result: { outcome: "rejected", reason: wrong.reason, actions: [] },
      });
    }
  });

  it("tells that the queue is full, in place of what the mapping would do", async () => {
    const full = await createIntakeWorld({
      limits: { queue: 1 },
      mappings: [{ id: "m", match: { path: "m" }, messageTemplate: "{{n}}" }],
    });
    const first = receiptOf(await full.receive("m", { n: 1 }));
    expect(receiptOf(await full.receive("m", { n: 2 }))).toMatchObject({
      outcome: "rejected",
      error: { code: "overloaded" },
    });
    const replayed = await full.intake.replay(first.eventId, { dryRun: false });
    expect(replayed).toMatchObject({
      ok: true,
      result: { outcome: "rejected", reason: expect.stringContaining("limits.queue") },
    });
    await full.close();
  });
});

describe("a message of a channel", () => {
  it("gets a receipt; a repeat gets the id of the first event", async () => {
    const first = await world.intake.receiveMessage("pipe", { id: "m-1", skipped: "an edit" });
    expect(first).toMatchObject({ outcome: "skipped", reason: "an edit", actions: [] });
    expect(await eventOf(first.eventId)).toMatchObject({
      path: "channels/pipe",
      credential: "channel:pipe",
      outcome: "skipped",
    });
    const again = await world.intake.receiveMessage("pipe", { id: "m-1", skipped: "an edit" });
    expect(again).toMatchObject({ outcome: "duplicate", eventId: first.eventId });
    const parts = [{ kind: "own" as const, text: "hello" }];
    const message = { id: "m-2", from: "someone", to: "room", parts, direct: true };
    expect(await world.intake.receiveMessage("pipe", message)).toMatchObject({
      outcome: "skipped",
      reason: '"someone" is not in allowFrom of channels.pipe: nothing is answered',
    });
  });
});
