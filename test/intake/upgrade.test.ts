import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { sha256Hex } from "../../src/core/secret.ts";
import { openStore } from "../../src/store/open.ts";
import type { DedupeEntry, EventRecord } from "../../src/store/types.ts";
import { createWorld } from "../e2e/world.ts";

const BODY = JSON.stringify({ message: "hi" });

const event = (id: string, path: string): EventRecord => ({
  id,
  receivedAt: Date.now(),
  path,
  credential: "hooks.token",
  outcome: "accepted",
  actions: [],
  request: { method: "POST", headers: {}, query: {}, body: Buffer.from(BODY) },
});
const key = (path: string, change: Partial<DedupeEntry>): DedupeEntry => ({
  scope: `${path}|hooks.token`,
  key: "k",
  expiresAt: Date.now() + 60_000,
  ...change,
});

it("answers a repeat of what an earlier version accepted as that version did", async () => {
  const dir = mkdtempSync(join(tmpdir(), "rouse-upgrade-"));
  const run = {
    ok: true,
    runId: "run_old",
    sessionKey: "hook:old",
    status: "queued",
    mapping: "m",
  };
  const whole = {
    eventId: "evt_1",
    ...run,
    warnings: ['the field "odd" is not known and was ignored'],
  };
  const list = {
    ok: true,
    eventId: "evt_2",
    results: [
      run,
      { ok: false, index: 1, error: { code: "unknown_agent", message: "agentId: …" } },
    ],
  };
  const url = `sqlite:${join(dir, "state/rouse.db")}`;
  const world = await createWorld({
    dir,
    workers: false,
    config: {
      stateDir: "state",
      hooks: {
        mappings: [
          {
            id: "m",
            match: { path: "m" },
            forEach: "items",
            messageTemplate: "{{item.n}}",
            dedupeKey: "{{item.n}}",
          },
        ],
      },
    },
  });
  await world.stop();
  const { store } = await openStore({ url, clock: systemClock, log: createLogger("silent") });
  const bodyHash = sha256Hex(BODY);
  await store.accept(event("evt_1", "agent"), [
    key("agent", { bodyHash, answer: { status: 202, body: whole } }),
  ]);
  await store.accept(event("evt_2", "m"), [
    key("m", { answer: { status: 202, body: list } }),
    { scope: "m|m", key: "1", expiresAt: Date.now() + 60_000, item: run },
  ]);
  await store.accept(event("evt_3", "skipped"), [
    key("skipped", { answer: { status: 204, body: null } }),
  ]);
  await store.close();
  const after = await createWorld({
    dir,
    workers: false,
    config: {
      stateDir: "state",
      hooks: {
        mappings: [
          {
            id: "m",
            match: { path: "m" },
            forEach: "items",
            messageTemplate: "{{item.n}}",
            dedupeKey: "{{item.n}}",
          },
        ],
      },
    },
  });
  try {
    const again = (path: string) => after.post(`/hooks/${path}`, BODY, { "idempotency-key": "k" });
    const single = await again("agent");
    expect([single.status, single.body, single.headers.get("idempotent-replayed")]).toEqual([
      202,
      whole,
      "true",
    ]);
    expect(single.headers.get("location")).toBe("/hooks/runs/run_old");
    expect(single.headers.get("x-request-id")).not.toBe("evt_1");
    expect([(await again("m")).status, (await again("m")).body]).toEqual([202, list]);
    expect([(await again("skipped")).status, (await again("skipped")).body]).toEqual([204, ""]);
    const other = await after.post(
      "/hooks/agent",
      { message: "another" },
      { "idempotency-key": "k" },
    );
    expect([other.status, other.body.error.code]).toEqual([409, "idempotency_conflict"]);
    const items = await after.post("/hooks/m", { items: [{ n: 1 }, { n: 2 }] });
    expect(items.body.results).toEqual([
      { ...run, duplicate: true },
      expect.objectContaining({ ok: true, status: "queued" }),
    ]);
  } finally {
    await after.stop();
    rmSync(dir, { recursive: true, force: true });
  }
});
