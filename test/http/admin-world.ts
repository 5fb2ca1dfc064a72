import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/core/clock.ts";
import { newId } from "../../src/core/ids.ts";
import { createLogger } from "../../src/core/log.ts";
import { openStore } from "../../src/store/open.ts";
import type { EventRecord, HookSpec, RunAction, StoreHandle } from "../../src/store/types.ts";
import * as e2e from "../e2e/world.ts";

export interface World extends StoreHandle, Pick<e2e.World, "gateway" | "post" | "write"> {
  /** The folder of the store. */
  dir: string;
  /** Asks the admin API: paths are below `/admin/v1`. */
  request(path: string, init?: RequestInit): Promise<Response>;
  close(): Promise<void>;
}

interface Options extends Pick<e2e.WorldOptions, "plugins"> {
  config?: { hooks?: object } & Record<string, unknown>;
  /** Events that are in the store before the gateway opens it. */
  events?: readonly EventRecord[];
}

/** A gateway without workers whose store the test writes to as well. The path `shop` has a mapping. */
export async function createWorld({
  config,
  events = [],
  plugins = [],
}: Options = {}): Promise<World> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-admin-"));
  const state = join(dir, ".rouse");
  mkdirSync(state, { mode: 0o700 });
  const open = (): Promise<StoreHandle> =>
    openStore({
      url: `sqlite:${join(state, "rouse.db")}`,
      clock: systemClock,
      log: createLogger("silent"),
    });
  if (events.length > 0) {
    const { store } = await open();
    for (const event of events) await store.accept(event);
    await store.close();
  }
  const mapping = {
    id: "shop.order",
    match: { path: "shop", payload: { type: "order" } },
    auth: { token: "canary-path-token-0123456789" },
    keepHeaders: ["x-shop"],
    maxBodyBytes: 1000,
    messageTemplate: "An order",
  };
  const { gateway, post, write, stop } = await e2e.createWorld({
    dir,
    start: false,
    workers: false,
    plugins,
    config: { ...config, hooks: { mappings: [mapping], ...config?.hooks } },
  });
  const handle = await open();
  return {
    ...handle,
    gateway,
    post,
    write,
    dir: state,
    request: (path, init = {}) =>
      gateway.fetch(
        new Request(`http://127.0.0.1/admin/v1${path}`, {
          ...init,
          headers: { authorization: `Bearer ${gateway.operatorToken}` },
        }),
      ),
    async close() {
      await handle.store.close();
      await stop();
      rmSync(dir, { recursive: true });
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

export function runAction(key = "hook:1"): RunAction<HookSpec> {
  const spec: HookSpec = {
    session: { agentId: "main", origin: "hook", key },
    name: "Shop",
    hook: "shop",
    input: [{ text: "Hi", outside: true }],
    wakeMode: "now",
    deliver: true,
    target: { channel: "last" },
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
  const response = await world.request(path, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as Answer["body"] };
}
