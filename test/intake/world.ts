import { NO_TRACES } from "../../src/core/trace-context.ts";
import { Approvals } from "../../src/people/approvals.ts";
import { createQuestions } from "../../src/people/notify.ts";
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Admission } from "../../src/queue/admission.ts";
import { retryOnRedelivery } from "../../src/turns/retry-on-redelivery.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { createMetrics } from "../../src/core/metrics.ts";
import { createPeople } from "../../src/people/links.ts";
import { createIntake, type Intake } from "../../src/intake/receive.ts";
import type {
  Origin,
  RawInput,
  IntakeReceipt,
  Received,
  Snapshot,
} from "../../src/intake/types.ts";
import { createTransformPool } from "../../src/mapping/transforms/pool.ts";
import { buildSnapshot } from "../../src/gateway/snapshot.ts";
import { openStore } from "../../src/store/open.ts";
import type { RunRecord, Store } from "../../src/store/types.ts";

export const TOKEN = "test-hook-token-0123456789";
export const INTERNAL: Origin = { kind: "internal" };
export const SOURCE: Origin = { kind: "source", plugin: "box" };
export const FROM_HTTP: Origin = { kind: "http", address: "203.0.113.7" };

export interface IntakeWorld {
  intake: Intake;
  store: Store;
  snapshot: Snapshot;
  logged: string[];
  /** The runs that a repeat has started again. */
  restarted: RunRecord[];
  setDraining(draining: boolean): void;
  metrics(): Promise<string>;
  /** Receives a POST with a JSON body, or with a string as it is. */
  receive(
    path: string,
    body: unknown,
    more?: { headers?: Record<string, string>; origin?: Origin; input?: Partial<RawInput> },
  ): Promise<Received>;
  close(): Promise<void>;
}

/** The intake over a real snapshot, store and admission: no HTTP, and nothing carries work out. */
export async function createIntakeWorld(
  hooks: object = {},
  files: Record<string, string> = {},
): Promise<IntakeWorld> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-intake-"));
  const config = JSON.stringify({ hooks: { enabled: true, token: TOKEN, ...hooks } });
  for (const [name, text] of Object.entries({ ...files, "rouse.json5": config })) {
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  const logged: string[] = [];
  const log = createLogger("trace", { write: (line: string) => void logged.push(line) });
  const clock = systemClock;
  const pool = createTransformPool({ log, env: process.env });
  const result = await buildSnapshot({
    cwd: dir,
    env: {},
    clock,
    fetch,
    log,
    pool,
    print: () => undefined,
  });
  if (!result.ok) throw new Error(JSON.stringify(result.issues));
  const { snapshot } = result.loaded;
  const { store, usage, cluster } = await openStore({
    url: `sqlite:${join(dir, "rouse.db")}`,
    clock,
    log,
  });
  const metrics = createMetrics();
  metrics.setPaths(snapshot.mappings.paths.map(({ path }) => path));
  const restarted: RunRecord[] = [];
  let draining = false;
  const retry = {
    store,
    restart: async (run: RunRecord) => void restarted.push(run),
    retryDelivery: async () => undefined,
  };
  const admission = new Admission({ store, usage, clock, log, context: () => snapshot });
  const intake = createIntake({
    traces: NO_TRACES,
    steer: () => undefined,
    showThatItWaits: () => undefined,
    people: createPeople({ store, cluster, clock, channels: () => snapshot.channels }),
    approvals: new Approvals({
      store,
      clock,
      log,
      approvers: () => snapshot.approvers,
      questions: createQuestions({ store, clock }, () => snapshot),
    }),
    store,
    clock,
    log,
    metrics,
    snapshot: () => snapshot,
    hookTokens: () => [TOKEN],
    draining: () => draining,
    sharedCounts: undefined,
    admit: (applicants, now) => admission.admit(applicants, now),
    retryFailed: (record) => retryOnRedelivery(record, retry),
  });
  return {
    intake,
    store,
    snapshot,
    logged,
    restarted,
    setDraining: (value) => void (draining = value),
    metrics: metrics.render,
    receive: (path, body, { headers = {}, origin = INTERNAL, input = {} } = {}) =>
      intake.receive(
        {
          method: "POST",
          path,
          query: {},
          headers: { "content-type": "application/json", ...headers },
          body: Buffer.from(typeof body === "string" ? body : JSON.stringify(body)),
          url: `http://127.0.0.1/hooks/${path}`,
          ...input,
        },
        origin,
      ),
    async close() {
      await store.close();
      await pool.close();
      await result.loaded.dispose();
      metrics.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** The receipt of what was recorded; fails for anything else. */
export function receiptOf(received: Received): IntakeReceipt {
  if (received.kind !== "receipt")
    throw new Error(`expected a receipt, got ${JSON.stringify(received)}`);
  return received;
}
