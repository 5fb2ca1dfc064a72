import { mkdtemp, rm } from "node:fs/promises";
import { searchTexts } from "../../src/knowledge/short-texts.ts";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { configSchema } from "../../src/config/schema/index.ts";
import { systemClock } from "../../src/core/clock.ts";
import { newId } from "../../src/core/ids.ts";
import { createLazyKnowledge } from "../../src/knowledge/lazy.ts";
import { createChannelHealth } from "../../src/delivery/health.ts";
import { createAdminRoutes, type AdminApp } from "../../src/http/admin/app.ts";
import { createQuestions } from "../../src/people/notify.ts";
import { Approvals } from "../../src/people/approvals.ts";
import { Memory } from "../../src/people/notes.ts";
import { createPeople } from "../../src/people/links.ts";
import { createApprovalRules } from "../../src/people/rules.ts";
import { createBookmarks } from "../../src/operate/records/bookmarks.ts";
import { createFailureStates } from "../../src/operate/watch/failure-states.ts";
import { createApiKeys } from "../../src/chat/api-keys.ts";
import type { ReplayResult, Snapshot } from "../../src/intake/types.ts";
import type { AdminDeps } from "../../src/operate/types.ts";
import type { PathRules } from "../../src/mapping/types.ts";
import { openStore } from "../../src/store/open.ts";
import type { Workbench } from "../../src/operate/workbench.ts";
import type { EventRecord, RunAction, RunSpec, StoreHandle } from "../../src/store/types.ts";

export const HOOK_TOKEN = "canary-hook-token-0123456789";

const SHOP: PathRules = {
  path: "shop",
  auth: { token: ["canary-path-token"] },
  methods: ["POST"],
  maxBodyBytes: 1000,
};
const mappings = {
  mappings: [
    {
      id: "shop.order",
      origin: "config",
      enabled: true,
      paths: ["shop"],
      action: "agent",
      at: "hooks.mappings[0]",
      headers: ["x-shop"],
      query: [],
    },
  ],
  configs: [],
  paths: [SHOP],
  rules: new Map([[SHOP.path, SHOP]]),
  owns: ({ path }: { path: string }) => path === "shop",
  written: () => new Map(),
  budgets: [],
  explain: async () => ({ traces: [], outcome: { kind: "unmatched" } }),
  files: [],
  documents: [],
  modules: new Map(),
};

function fakeSnapshot(): Snapshot {
  const config = configSchema.parse({ hooks: { enabled: true, token: HOOK_TOKEN } });
  const agent = { id: "main", name: "Main", model: "builtin/echo", tools: [] };
  const model = { ref: "builtin/echo", provider: "builtin", model: "echo" };
  const snapshot = {
    hash: "abc",
    configFile: undefined,
    config,
    approvers: config.tools.approvers,
    mappings,
    verifiers: new Map(),
    plugins: [{ id: "console", origin: "built in", channel: true, configured: false }],
    warnings: [],
    agents: {
      list: [agent],
      default: agent,
      get: (id: string) => (id === "main" ? agent : undefined),
    },
    models: {
      resolve: () => ({ ok: true, model }),
      resolveRequested: () => ({ ok: true, model }),
      standard: model,
      providers: [],
    },
    channels: {
      resolve: (name: string) => (name === "console" ? { id: name, loaded: true } : undefined),
      get: () => undefined,
      fallback: undefined,
      loaded: [
        {
          id: "console",
          channel: {
            send: async () => ({ status: "sent" }),
            probe: async () => Promise.reject(new Error("canary-probe")),
          },
        },
      ],
      names: ["console"],
      checkRecipient: (_id: string, to: string) => ({ ok: true, to }),
    },
    rooms: {
      isOwner: () => false,
      hasOwner: () => false,
      entries: [],
      findEntry: () => undefined,
      agentFor: () => agent,
      bindingsOn: () => [],
    },
  };
  return snapshot as unknown as Snapshot;
}

export interface World extends StoreHandle {
  app: AdminApp;
  deps: AdminDeps;
  dir: string;
  /** What `replay` and `runs.retry` were asked for, in order. */
  asked: string[];
  close(): Promise<void>;
}

/** The admin routes over a real store, with the gateway's other parts played. */
export async function createWorld(): Promise<World> {
  const dir = await mkdtemp(join(tmpdir(), "rouse-admin-"));
  const handle = await openStore({
    url: `sqlite:${join(dir, "rouse.db")}`,
    clock: { now: () => Date.now() },
    log: pino({ level: "silent" }),
  });
  const asked: string[] = [];
  const snapshot = fakeSnapshot();
  const deps: AdminDeps = {
    clock: systemClock,
    log: pino({ level: "silent" }),
    ...handle,
    snapshot: () => snapshot,
    decidedBy: async () => ({
      record: undefined,
      today: undefined,
      todaySince: undefined,
      isToday: true,
      snapshot,
      note: null,
    }),
    status: () => ({
      version: "1",
      pid: 1,
      startedAt: 0,
      url: undefined,
      workers: false,
      draining: false,
      snapshot: "abc",
      configFile: undefined,
      stateDir: dir,
      reloadProblems: [],
      channels: [],
      mcpServers: [],
      breakers: [],
      services: [],
      warnings: [],
    }),
    memory: new Memory({ store: handle.store, cluster: handle.cluster, clock: systemClock }, searchTexts),
    approvals: new Approvals({
      store: handle.store,
      clock: systemClock,
      log: pino({ level: "silent" }),
      approvers: () => snapshot.approvers,
      questions: createQuestions({ store: handle.store, clock: systemClock }, () => snapshot),
    }),
    ...createPeople({ ...handle, clock: systemClock, channels: () => snapshot.channels }),
    rules: createApprovalRules({
      store: handle.store,
      cluster: handle.cluster,
      clock: systemClock,
    }),
    schedules: {
      list: async () => [],
      run: () => Promise.reject(new Error("there are no schedules here")),
      pause: async () => false,
      resume: async () => false,
      remove: async () => false,
    },
    keys: createApiKeys({
      store: handle.store,
      cluster: handle.cluster,
      clock: { now: () => Date.now() },
      config: () => snapshot.config,
    }),
    bookmarks: createBookmarks({
      store: handle.store,
      cluster: handle.cluster,
      clock: { now: () => Date.now() },
    }),
    failures: createFailureStates({ ...handle, clock: systemClock }),
    knowledge: createLazyKnowledge({
      dir,
      env: {},
      log: pino({ level: "silent" }),
      open: () => Promise.reject(new Error("nothing is opened here")),
    }),
    chats: {
      startTurn: () => ({ ok: false, failure: { code: "overloaded", message: "nobody is there" } }),
      cancel: async () => undefined,
      recover: async () => undefined,
      stop: async () => undefined,
    },
    signatures: () => [],
    channels: createChannelHealth({
      channels: () => snapshot.channels,
      clock: systemClock,
      log: pino({ level: "silent" }),
    }),
    limits: async () => [],
    recorded: async () => ({ warnings: [], bodyChanges: [] }),
    refusals: () => [
      { at: 1000, address: "10.0.0.1", path: "wake", reason: "no_token", authenticated: false },
      { at: 2000, address: "10.0.0.2", path: "wake", reason: "wrong_token", authenticated: false },
    ],
    runs: {
      cancel: async () => ({
        ok: false,
        failure: { code: "not_found", message: "there is no run with this id" },
      }),
      async retry(id) {
        asked.push(`retry ${id}`);
        const run = await handle.store.get("run", id);
        return run
          ? { ok: true, run }
          : { ok: false, failure: { code: "not_found", message: "no run" } };
      },
    },
    async replay(eventId, { dryRun }) {
      asked.push(`replay ${eventId}${dryRun ? " dry" : ""}`);
      const event = await handle.store.get("event", eventId);
      if (event?.request.body === null)
        return { ok: false, failure: { code: "not_found", message: "the body is no longer kept" } };
      const result: ReplayResult = { eventId, outcome: "unmatched", actions: [] };
      if (!dryRun) {
        result.newEventId = newId("evt", Date.now());
        await handle.store.accept(
          event_("shop", { id: result.newEventId, outcome: "unmatched", replayOf: eventId }),
        );
      }
      return { ok: true, result };
    },
    sendEvent: async () => ({ status: 200, body: { ok: true } }),
    retryDelivery: async () => ({
      ok: false,
      failure: { code: "not_found", message: "there is no delivery with this id" },
    }),
    reload: async () => ({ ok: false, issues: [{ path: "hooks.path", message: "must not be /" }] }),
    metrics: async () => "",
    latencies: () => ({ answers: null, waits: null, runs: null }),
  };
  return {
    ...handle,
    app: createAdminRoutes(deps, {} as Workbench),
    deps,
    dir,
    asked,
    async close() {
      await handle.store.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

let at = Date.now() - 60_000;

/** An event, each newer than the one before. */
export function event_(path: string, change: Partial<EventRecord> = {}): EventRecord {
  at += 2;
  return {
    id: newId("evt", at),
    receivedAt: at,
    path,
    credential: "hooks.token",
    outcome: "skipped",
    actions: [],
    request: {
      method: "POST",
      headers: { "x-shop": "1" },
      query: {},
      body: Buffer.from('{"a":1}'),
    },
    ...change,
  };
}

export function runAction(key = "hook:1"): RunAction {
  const spec: RunSpec = {
    session: { agentId: "main", origin: "hook", key },
    name: "Shop",
    hook: "shop",
    input: [{ text: "Hi", outside: true }],
    wakeMode: "now",
    deliver: true,
    channel: "last",
    unsafe: false,
  };
  return { kind: "run", runId: newId("run", Date.now()), spec, warnings: [] };
}

interface Answer {
  status: number;
  body: Record<string, never> & {
    ok: boolean;
    error?: { code: string; message: string; issues?: { path: string; message: string }[] };
  };
}

export async function ask(
  world: World,
  method: string,
  path: string,
  body?: unknown,
): Promise<Answer> {
  const response = await world.app.request(path, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Answer["body"] };
}
