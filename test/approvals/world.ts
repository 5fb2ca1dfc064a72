import { z } from "zod";
import type { Clock } from "../../src/core/clock.ts";
import { systemClock } from "../../src/core/clock.ts";
import { definePlugin, type Plugin, type Tool } from "../../src/plugin/api.ts";
import {
  startVendor,
  VENDORS,
  type ModelServer,
  type Said,
  type Vendor,
} from "../agent/vendors.ts";
import { PIPE } from "../channels/pipe.ts";
import { createWorld, type World, type WorldOptions } from "../e2e/world.ts";

export const VENDOR = VENDORS[0] as Vendor;

/** The calls that reached the bank, whatever the gateway reports. */
export interface Bank {
  calls: { tool: string; input: unknown; callId: string }[];
  plugin: Plugin;
}

/** A plugin with a tool that reads and one that changes something. */
export function createBank(): Bank {
  const calls: Bank["calls"] = [];
  const tool = (name: string, more: Partial<Tool>, answer: string): Tool => ({
    name,
    description: name,
    input: z.looseObject({}),
    execute(input, { callId }) {
      calls.push({ tool: name, input, callId });
      return answer;
    },
    ...more,
  });
  const tools = [
    tool("balance", { readOnly: true }, "You have 100."),
    tool("transfer", {}, "It was sent."),
  ];
  return { calls, plugin: definePlugin({ id: "bank", setup: () => ({ tools }) }) };
}

export interface ApprovalWorld extends World {
  bank: Bank;
  model: ModelServer;
  /** The model's last request, as text. */
  lastRequest(): string;
  /** Open approvals, once there are as many. */
  open(count?: number): Promise<
    {
      id: string;
      code: string;
      runId: string;
      tool: string;
      why: string;
      reason: string;
      callId: string;
    }[]
  >;
  runEnded(
    id: string,
  ): Promise<{ status: string; reply: string; warnings: string[]; error: { code: string } | null }>;
  restart(): Promise<void>;
  close(): Promise<void>;
}

interface Options extends Omit<WorldOptions, "config"> {
  config?: Record<string, unknown>;
  agent?: object;
  hooks?: object;
  /** The window of the model, or of each; default that of an unknown model. */
  contextTokens?: number | Record<string, number>;
  /** USD per million tokens, by model. */
  prices?: object;
}

/** Calls the tool once, then says what came of it. */
export const transferOnce =
  (input: object = { to: "ACME", amount: 50 }, tool = "bank__transfer") =>
  (request: { body: { messages: { role: string; content: unknown }[] } }): Said => {
    const last = request.body.messages.at(-1);
    return last?.role === "tool"
      ? { text: `Done: ${JSON.stringify(last.content)}` }
      : { tool, input };
  };

/** A gateway whose agent has the tools of a bank, with a channel that Ann, the owner, and Bob write on. */
export async function approvalWorld({
  config = {},
  agent = {},
  hooks = {},
  contextTokens,
  prices,
  ...options
}: Options = {}): Promise<ApprovalWorld> {
  const model = await startVendor(VENDOR);
  const bank = createBank();
  model.handler = transferOnce();
  const provider = {
    type: VENDOR.type,
    baseUrl: model.baseUrl,
    apiKey: "k-0123456789",
    ...(contextTokens !== undefined && { contextTokens }),
  };
  const make = (dir?: string): Promise<World> =>
    createWorld({
      ...options,
      plugins: [bank.plugin],
      files: { "plugins/pipe.ts": PIPE },
      ...(dir === undefined ? {} : { dir }),
      config: {
        hooks: { tools: ["bank.*"], ...hooks },
        channels: { pipe: { allowFrom: ["ann", "bob"], defaultTo: "ann" } },
        owner: { pipe: "ann" },
        models: { providers: { local: provider }, ...(prices && { prices }) },
        agents: {
          defaults: { model: "local/big", heartbeat: { every: 0 } },
          list: [{ id: "main", tools: ["bank.*"], ...agent }],
        },
        ...config,
      },
    });
  let world = await make();
  const { dir } = world;
  const made: ApprovalWorld = {
    ...world,
    bank,
    model,
    lastRequest: () => JSON.stringify(model.requests.at(-1)?.body),
    open: (count = 1) =>
      world.until(async () => {
        const { approvals } = (await world.admin("/admin/v1/approvals?state=open")).body;
        return approvals.length >= count && approvals;
      }),
    runEnded: (id) =>
      world.until(async () => {
        const { run } = (await world.admin(`/admin/v1/runs/${id}`)).body;
        return run.endedAt !== null && run;
      }),
    async restart() {
      await world.gateway.stop();
      world = await make(dir);
      Object.assign(made, world);
    },
    async close() {
      await world.stop();
      await model.close();
    },
  };
  return made;
}

/** A clock that a test sets forward and holds. */
export interface FastClock extends Clock {
  advance(ms: number): void;
  /** Until `release` only `advance` lets time pass: what happens meanwhile happens at the same time. */
  hold(): void;
  release(): void;
}

/** A clock that is ahead of the real one by as much as the test says. */
export function createFastClock(): FastClock {
  let ahead = 0;
  let heldAt: number | undefined;
  let setting = new AbortController();
  const now = (): number => heldAt ?? Date.now() + ahead;
  /** Sets the clock, and lets those who sleep look at it. */
  const set = (more: number, at: number | undefined): void => {
    ahead += more;
    heldAt = at;
    setting.abort();
    setting = new AbortController();
  };
  return {
    now,
    async sleep(ms, signal) {
      const until = now() + ms;
      while (now() < until && !signal?.aborted)
        await systemClock.sleep(
          heldAt === undefined ? until - now() : Infinity,
          AbortSignal.any([setting.signal, ...(signal ? [signal] : [])]),
        );
    },
    advance: (ms) => set(ms, heldAt === undefined ? undefined : heldAt + ms),
    hold: () => set(0, now()),
    release: () => set(0, undefined),
  };
}
