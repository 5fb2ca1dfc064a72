import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { authenticate, createAuthenticator } from "../../src/intake/authenticate.ts";
import { createDenials, createFailureLimiter } from "../../src/intake/callers.ts";
import { createHold, decodeHookBody, readHookBody } from "../../src/intake/body.ts";
import { createBodyBudget } from "../../src/intake/body-budget.ts";
import { deduplicate } from "../../src/intake/record.ts";
import type { Origin, RawInput, ReceivedHook } from "../../src/intake/types.ts";
import {
  createIntakeWorld,
  FROM_HTTP,
  receiptOf,
  SOURCE,
  TOKEN,
  type IntakeWorld,
} from "./world.ts";

let world: IntakeWorld;
beforeAll(async () => {
  world = await createIntakeWorld();
});
afterAll(() => world.close());

const clock = { now: () => Date.now() };

/** A hook that has come as far as the stage under test. */
function hook(
  input: Partial<RawInput>,
  change: Partial<ReceivedHook> = {},
  origin: Origin = FROM_HTTP,
): ReceivedHook {
  return {
    id: "evt_1",
    now: Date.now(),
    path: "agent",
    input: { method: "POST", path: "agent", query: {}, headers: {}, body: null, ...input },
    origin,
    address: "203.0.113.7",
    snapshot: world.snapshot,
    rules: undefined,
    verifier: undefined,
    kept: { headers: {}, query: {} },
    credential: "hooks.token",
    byHookToken: true,
    bytes: Buffer.alloc(0),
    payload: undefined,
    ...change,
  };
}

function denialsWithLimiter() {
  const limiter = createFailureLimiter(clock);
  const reasons: string[] = [];
  const denials = createDenials({
    clock,
    log: { warn: () => undefined },
    metrics: {
      refused: (reason) => void reasons.push(reason),
      requestLost: () => undefined,
    },
    limiter,
  });
  return { limiter, denials, reasons };
}

describe("one stage alone", () => {
  it("authenticate: the first form of a token counts", () => {
    const { limiter, denials, reasons } = denialsWithLimiter();
    const deps = {
      compiled: () => ({ auth: createAuthenticator([TOKEN], [], true) }),
      limiter,
      denials,
    };
    const right = hook(
      { headers: { "x-gateway-token": TOKEN } },
      { credential: "", byHookToken: false },
    );
    expect(authenticate(right, deps)).toBeUndefined();
    expect(right).toMatchObject({ credential: "hooks.token", byHookToken: true });
    const byQuery = hook({ query: { token: TOKEN } });
    expect(authenticate(byQuery, deps)).toBeUndefined();
    expect(byQuery.hints).toEqual({ tokenInQuery: true });
    const wrong = hook({ headers: { authorization: "Bearer wrong", "x-gateway-token": TOKEN } });
    expect(authenticate(wrong, deps)).toMatchObject({
      kind: "denied",
      error: { code: "unauthorized" },
    });
    expect(authenticate(hook({}, {}, SOURCE), deps)).toBeUndefined();
    expect(reasons).toEqual(["wrong_token"]);
  });

  it("readBody, then decodeHookBody", async () => {
    const deps = {
      ...denialsWithLimiter(),
      bodyBudget: createBodyBudget(clock),
      hold: createHold(),
    };
    const form = hook({
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: Buffer.from("a=1&a=2&b=3"),
    });
    expect(await readHookBody(form, deps)).toBeUndefined();
    expect(await decodeHookBody(form)).toBeUndefined();
    expect(form.payload).toEqual({ a: ["1", "2"], b: "3" });
    const broken = hook({ body: Buffer.from("{") });
    expect(await readHookBody(broken, deps)).toBeUndefined();
    expect(await decodeHookBody(broken)).toMatchObject({
      kind: "rejected",
      error: { code: "invalid_json" },
    });
    const get = hook({ method: "GET" }, { kept: { headers: {}, query: { q: "1" } } });
    expect([await readHookBody(get, deps), await decodeHookBody(get), get.payload]).toEqual([
      undefined,
      undefined,
      { q: "1" },
    ]);
  });

  it("deduplicate: finds the earlier event in the store", async () => {
    const deps = {
      store: world.store,
      admit: () => ({ ok: true as const, placements: [], settle: () => undefined }),
      retryFailed: async () => undefined,
    };
    const payload = { message: "hi", idempotencyKey: "k" };
    const bytes = Buffer.from(JSON.stringify(payload));
    const fresh = hook({}, { payload, bytes });
    expect(await deduplicate(fresh, deps)).toBeUndefined();
    expect(fresh.eventKey).toMatchObject({ scope: "agent|hooks.token", key: "k" });
    const first = receiptOf(await world.receive("agent", payload));
    expect(await deduplicate(hook({}, { id: "evt_2", payload, bytes }), deps)).toMatchObject({
      outcome: "duplicate",
      repeats: { eventId: first.eventId, receipt: { outcome: "accepted", actions: first.actions } },
    });
  });
});
