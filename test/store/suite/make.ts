import { systemClock, type Clock } from "../../../src/core/clock.ts";
import { newId } from "../../../src/core/ids.ts";
import type {
  ApprovalRecord,
  Checkpoint,
  DedupeEntry,
  EventRecord,
  NewDelivery,
  NewJob,
  NewSystemEvent,
  NewTurn,
  RunAction,
  RunRecord,
  HookRun,
  HookSpec,
  MessageSpec,
  SessionRef,
  StepRecord,
  StoreHandle,
  ToolCallRecord,
  WakeAction,
} from "../../../src/store/types.ts";

/** One place where a store lives, which can be opened, left and opened again. */
export interface Home {
  open(): Promise<StoreHandle>;
  clock: TestClock;
  /** Set if the store can copy itself into a file; any other store names the tool that copies it. */
  copies?: {
    /** A path for a backup. */
    file(name: string): string;
    /** Opens the copy that a backup made. */
    open(file: string): Promise<StoreHandle>;
  };
  remove(): Promise<void>;
}

export interface TestClock extends Clock {
  monotonic(): number;
  /** Lets time pass. */
  advance(ms: number): void;
  /** Sets the clock, as an operator or a time server does: no time passes. */
  set(ms: number): void;
  /** From now on `ms` milliseconds pass at each look at the clock. */
  passAtEachLook(ms: number): void;
}

export const START = Date.UTC(2026, 0, 5, 12);
export const HOUR = 3_600_000;
export const DAY = 24 * HOUR;
/** The times for which a sweep keeps records. */
export const KEEP = {
  bodies: 3 * DAY,
  events: 30 * DAY,
  runs: 30 * DAY,
  hookSessions: 30 * DAY,
  apiSessions: 90 * DAY,
  deliveries: 30 * DAY,
  sessionTurns: 5_000,
};

/** Creates a clock that stands still until a test moves it. */
export function createTestClock(): TestClock {
  let at = START;
  let passed = 0;
  let each = 0;
  const advance = (ms: number): void => {
    at += ms;
    passed += ms;
  };
  return {
    now() {
      advance(each);
      return at;
    },
    monotonic: () => passed,
    sleep: systemClock.sleep,
    advance,
    set: (ms) => void (at += ms),
    passAtEachLook: (ms) => void (each = ms),
  };
}

export const MAIN_SESSION: SessionRef = { agentId: "main", origin: "main", key: "main" };

/** A checkpoint of the turns up to a number. */
export const buildCheckpoint = (upTo: number): Checkpoint => ({
  upTo,
  covered: upTo,
  turns: 1,
  left: 0,
  outside: false,
});

export const hookSession = (key = "hook:one", agentId = "main"): SessionRef => ({
  agentId,
  origin: "hook",
  key,
});

export function spec(key = "hook:one", change: Partial<HookSpec> = {}): HookSpec {
  return {
    session: hookSession(key),
    name: "Alert",
    hook: "alerts",
    input: [
      { text: "Look at this: ", outside: false },
      { text: "disk is full — ü 🙂", outside: true },
    ],
    wakeMode: "now",
    deliver: true,
    target: { channel: "last" },
    unsafe: false,
    ...change,
  };
}

export function messageSpec(key: string, change: Partial<MessageSpec> = {}): MessageSpec {
  return {
    session: hookSession(key),
    name: "message on rooms",
    hook: "channels/rooms",
    input: [],
    channel: "rooms",
    to: "1",
    incoming: { from: "1", direct: true, replyTo: "1" },
    ...change,
  };
}

export function runAction(
  key?: string,
  change: Partial<RunAction<HookSpec>> = {},
): RunAction<HookSpec> {
  return { kind: "run", runId: newId("run", START), spec: spec(key), warnings: [], ...change };
}

export function wakeAction(change: Partial<WakeAction> = {}): WakeAction {
  return {
    kind: "wake",
    systemEventId: newId("sev", START),
    hook: "wake",
    agentId: "main",
    text: [{ text: "ping", outside: true }],
    mode: "now",
    unsafe: false,
    ...change,
  };
}

export function event(change: Partial<EventRecord> = {}): EventRecord {
  return {
    id: newId("evt", START),
    receivedAt: START,
    path: "alerts",
    credential: "hooks.token",
    outcome: "accepted",
    actions: [],
    request: {
      method: "POST",
      contentType: "application/json",
      headers: { "user-agent": "test" },
      query: {},
      body: new TextEncoder().encode('{"a":1}'),
    },
    ...change,
  };
}

export function dedupe(change: Partial<DedupeEntry> = {}): DedupeEntry {
  return {
    scope: "alerts hooks.token",
    key: "k1",
    expiresAt: START + DAY,
    receipt: { outcome: "accepted", actions: [] },
    ...change,
  };
}

export function run<R extends RunRecord = HookRun>(change: Partial<NoInfer<R>> = {}): R {
  return {
    id: newId("run", START),
    eventId: null,
    kind: "hook",
    status: "queued",
    spec: spec(),
    warnings: [],
    attempts: 0,
    restarts: 0,
    createdAt: START,
    ...change,
  } as RunRecord as R;
}

export function job(id: string, change: Partial<NewJob> = {}): NewJob {
  return {
    id,
    kind: "turn",
    key: "main/hook/one",
    data: { type: "run", runId: id },
    enqueuedAt: START,
    ...change,
  };
}

export function turn(runId: string, change: Partial<NewTurn> = {}): NewTurn {
  return {
    runId,
    at: START,
    hook: "alerts",
    input: [{ text: runId, outside: true }],
    unsafe: false,
    messages: [{ role: "assistant", content: `about ${runId}` }],
    ...change,
  };
}

export function systemEvent(id: string, change: Partial<NewSystemEvent> = {}): NewSystemEvent {
  return {
    id,
    agentId: "main",
    at: START,
    text: [{ text: id, outside: true }],
    source: "wake",
    mode: "now",
    unsafe: false,
    ...change,
  };
}

export function delivery(id: string, change: Partial<NewDelivery> = {}): NewDelivery {
  return {
    id,
    runId: "run_1",
    route: { channel: "console", to: "me" },
    chunks: ["one", "two"],
    createdAt: START,
    ...change,
  };
}

/** Outside text that stands in each record. */
export const WORDS = "outside-words-2342";

export const toolCall = (runId: string, step: number, position: number): ToolCallRecord => ({
  id: `${runId}.${step}.${position}`,
  modelCallId: `call_${position}`,
  tool: "shop.refund",
  name: "shop_refund",
  input: { order: 7, note: `${WORDS} \u0000 ü 🙂` },
  state: "planned",
});

export const step = (runId: string, index: number, calls = 2): StepRecord => ({
  runId,
  index,
  model: "acme/large",
  messages: [{ role: "assistant", content: [{ type: "text", text: `I saw ${WORDS}` }] }],
  finish: "tool-calls",
  usage: {
    inputTokens: 12,
    outputTokens: 3,
    totalTokens: 15,
    cachedInputTokens: 8,
    reasoningTokens: 1,
  },
  startedAt: START,
  endedAt: START + 900,
  calls: Array.from({ length: calls }, (_, position) => toolCall(runId, index, position)),
  failedAttempts: [
    {
      at: START,
      model: "acme/small",
      error: { code: "provider_error", message: WORDS, vendor: { status: 500, message: WORDS } },
      waitedMs: 100,
    },
  ],
});

export const approval = (runId: string, change: Partial<ApprovalRecord> = {}): ApprovalRecord => ({
  id: `apr_${runId}`,
  code: "7f3",
  runId,
  callId: `${runId}.0.0`,
  agentId: "main",
  tool: "shop.refund",
  input: { order: 7, note: WORDS },
  reason: "rule",
  why: 'the rule "shop.*" asks',
  askedAt: START,
  expiresAt: START + DAY,
  ...change,
});

export const DECISION = { verdict: "approve", by: "operator", at: START + 5 } as const;
