/** All that is outside of the gateways: model servers, a tool's service, a channel's vendor. What they saw is the truth. */
import { z } from "zod";
import { createRandom } from "./random.ts";
import { definePlugin, type Plugin } from "../../src/contract/define.ts";
import type { SendResult } from "../../src/contract/channel.ts";
import type { Fault, Order, Plan } from "./plan.ts";
import { current, type Incarnation, type Time } from "./time.ts";

/** A request that a model server saw. `end` and `how` are there once it has ended. */
export interface ModelCall {
  at: number;
  end: number;
  how: "under way" | "answered" | "refused" | "aborted" | "killed";
  order: number;
  /** Tool results that the request had. */
  step: number;
  provider: string;
  by: string;
}
export interface Effect {
  at: number;
  order: number;
  callId: string;
  by: string;
}
/** A message that the vendor of the channel got, and has shown. */
export interface Message {
  at: number;
  order: number;
  key: string;
}
/** A request to the vendor of the channel; `end` once it was answered. */
export interface Send {
  at: number;
  end: number;
  how: "sent" | "refused" | "no answer";
  order: number;
}
/** The answer to a sender: a status, or the reason why there was none. */
export interface Answer {
  at: number;
  end: number;
  order: number;
  result: number | "cut" | "late" | "refused";
  runId: string | undefined;
}

export interface Ledgers {
  calls: ModelCall[];
  effects: Effect[];
  messages: Message[];
  sends: Send[];
  answers: Answer[];
  deaths: { at: number; of: string }[];
}

/** A provider that is partly down refuses one of so many orders, and answers all others. */
const PARTS = 3;

export class Outside {
  readonly ledgers: Ledgers = {
    calls: [],
    effects: [],
    messages: [],
    sends: [],
    answers: [],
    deaths: [],
  };
  readonly trace: string[] = [];
  readonly #plan: Plan;
  readonly #time: Time;
  readonly #random;
  readonly #open = new Map<ModelCall, Incarnation>();
  readonly #limitedOnce = new Set<Fault>();
  /** Kills a gateway. */
  onPoison: (of: Incarnation) => void = () => undefined;

  constructor(plan: Plan, time: Time) {
    this.#plan = plan;
    this.#time = time;
    this.#random = createRandom(plan.seed + 1_000_003);
  }

  note(text: string): void {
    this.trace.push(`${(this.#time.now / 1000).toFixed(3).padStart(10)} ${text}`);
  }

  died(of: Incarnation): void {
    this.ledgers.deaths.push({ at: this.#time.now, of: of.name });
    for (const [call, by] of this.#open) if (by === of) this.#end(call, "killed");
  }

  isBroken(
    kind: "provider" | "channel",
    of?: string,
  ): Extract<Fault, { kind: "provider" | "channel" }> | undefined {
    const now = this.#time.now;
    return this.#plan.faults.find(
      (fault): fault is Extract<Fault, { kind: "provider" | "channel" }> =>
        fault.kind === kind &&
        fault.from <= now &&
        now < fault.to &&
        (of === undefined || (fault.kind === "provider" && fault.of === of)),
    );
  }

  #delay(low: number, high: number): number {
    return low + this.#random.next() * (high - low);
  }

  #end(call: ModelCall, how: ModelCall["how"]): void {
    if (call.how !== "under way") return;
    call.how = how;
    call.end = this.#time.now;
    this.#open.delete(call);
    this.note(`${call.by}: ${call.provider} about order ${call.order}, step ${call.step}: ${how}`);
  }

  /** Serves both model providers: `http://alpha.example/v1/chat/completions` and the same of beta. */
  readonly fetch: typeof fetch = async (input, init) => {
    const by = current();
    const { hostname } = new URL(input instanceof Request ? input.url : input);
    const body = JSON.parse(init?.body as string) as {
      messages: { role: string; content: unknown }[];
    };
    const last = body.messages.findLastIndex(({ role }) => role === "user");
    const order = Number(
      /order-(\d+)(?![^]*order-\d)/.exec(JSON.stringify(body.messages[last]?.content))?.[1] ?? -1,
    );
    const step = body.messages.slice(last).filter(({ role }) => role === "tool").length;
    const provider = hostname.split(".")[0] as string;
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    if (!by?.alive) return promise;
    const call: ModelCall = {
      at: this.#time.now,
      end: Infinity,
      how: "under way",
      order,
      step,
      provider,
      by: by.name,
    };
    this.ledgers.calls.push(call);
    this.#open.set(call, by);
    this.note(`${by.name}: asks ${provider} about order ${order}, step ${step}`);
    init?.signal?.addEventListener("abort", () => {
      this.#end(call, "aborted");
      reject(init.signal?.reason as Error);
    });
    if (this.#plan.orders[order]?.poison)
      this.#time.schedule(
        this.#delay(100, 1000),
        () => call.how === "under way" && this.onPoison(by),
      );
    else this.#answerLater(call, by, resolve);
    return promise;
  };

  #answerLater(call: ModelCall, by: Incarnation, resolve: (response: Response) => void): void {
    const { provider } = call;
    const fault = this.isBroken("provider", provider);
    const how = fault?.kind === "provider" ? fault.how : undefined;
    if (how === "hanging") return;
    const ms =
      how === "slow"
        ? this.#delay(10_000, 40_000)
        : how === undefined
          ? this.#delay(300, 8_000)
          : this.#delay(50, 400);
    const answer = (kind: ModelCall["how"], response: () => Response): void =>
      void this.#time.schedule(ms, () => {
        if (call.how !== "under way") return;
        this.#end(call, kind);
        this.#time.schedule(0, () => resolve(response()), by);
      });
    const refuse = (status: number, headers: Record<string, string> = {}): void =>
      answer("refused", () =>
        Response.json({ error: { message: "not now", type: "server_error" } }, { status, headers }),
      );
    if (how === "down" || (how === "partly down" && call.order % PARTS === 0)) return refuse(503);
    if (how === "limited")
      return refuse(429, this.#random.below(2) === 0 ? { "retry-after": "20" } : {});
    if (how === "limited for a day") return refuse(429, { "retry-after": "86400" });
    if (how === "limited once" && fault && !this.#limitedOnce.has(fault)) {
      this.#limitedOnce.add(fault);
      return refuse(429, { "retry-after": "600" });
    }
    const text = JSON.stringify(this.#completion(call));
    if (how === "cut")
      return answer(
        "refused",
        () => new Response(cutStream(text), { headers: { "content-type": "application/json" } }),
      );
    answer(
      "answered",
      () => new Response(text, { headers: { "content-type": "application/json" } }),
    );
  }

  #completion({ order, step }: ModelCall): object {
    const { calls = 0 } = this.#plan.orders[order] ?? {};
    const toolCall = {
      id: `call_${step}`,
      type: "function",
      function: { name: "acme__act", arguments: JSON.stringify({ order, step }) },
    };
    const message =
      step < calls
        ? { role: "assistant", content: null, tool_calls: [toolCall] }
        : { role: "assistant", content: `The order-${order} is done.` };
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    const choices = [{ index: 0, finish_reason: step < calls ? "tool_calls" : "stop", message }];
    return { id: "c", object: "chat.completion", created: 1, model: "m", choices, usage };
  }

  /** A plugin with a tool that acts on the outside, and a channel. */
  readonly plugin = (): Plugin =>
    definePlugin({
      id: "acme",
      section: "channels",
      setup: () => ({
        channel: {
          defaultTo: "everybody",
          send: (message) => this.#send(message.text, message.idempotencyKey),
        },
        tools: [
          {
            name: "act",
            description: "Acts on an order.",
            input: z.object({ order: z.number(), step: z.number() }),
            execute: (input, { callId }) => this.#act(input as { order: number }, callId),
          },
        ],
      }),
    });

  async #act({ order }: { order: number }, callId: string): Promise<string> {
    const by = current();
    const { promise, resolve } = Promise.withResolvers<string>();
    if (!by?.alive) return promise;
    this.ledgers.effects.push({ at: this.#time.now, order, callId, by: by.name });
    this.note(`${by.name}: acts on order ${order}, call ${callId}`);
    this.#time.schedule(this.#delay(50, 4_000), () => resolve("done"), by);
    return promise;
  }

  async #send(text: string, key: string): Promise<SendResult> {
    const by = current();
    const { promise, resolve, reject } = Promise.withResolvers<SendResult>();
    if (!by?.alive) return promise;
    const fault = this.isBroken("channel");
    const how = fault?.kind === "channel" ? fault.how : undefined;
    const order = Number(/order-(\d+)/.exec(text)?.[1] ?? -1);
    const isRefused = how === "away" || (how === "flaky" && this.#random.below(3) === 0);
    if (!isRefused) this.ledgers.messages.push({ at: this.#time.now, order, key });
    const send: Send = { at: this.#time.now, end: Infinity, how: "no answer", order };
    this.ledgers.sends.push(send);
    this.note(
      `${by.name}: sends about order ${order}, key ${key}${isRefused ? " (refused)" : how === undefined ? "" : ` (${how})`}`,
    );
    if (how === "hanging") return promise;
    const end = (): void => {
      if (how !== "answer lost")
        Object.assign(send, { end: this.#time.now, how: isRefused ? "refused" : "sent" });
      if (isRefused) resolve({ status: "retry", reason: "away" });
      else if (how === "answer lost") reject(new TypeError("fetch failed"));
      else resolve({ status: "sent", messageIds: [key] });
    };
    this.#time.schedule(this.#delay(30, 1_000), end, by);
    return promise;
  }
}

function cutStream(text: string): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(text.slice(0, text.length / 2)));
      controller.error(new TypeError("terminated"));
    },
  });
}

/** The request that a sender posts. */
export const orderRequest = ({ n, path, session }: Order): Request =>
  new Request(`http://localhost/hooks/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${HOOK_TOKEN}`, "content-type": "application/json" },
    body: JSON.stringify({ id: `o${n}`, task: `order-${n}`, session }),
  });

export const HOOK_TOKEN = "faults-hook-token-0123456789";
export const OPERATOR_TOKEN = "faults-operator-token-0123456789";

/** The config of the gateways under simulation. */
export function gatewayConfig({ limits }: Plan): object {
  const mapping = (id: string, more: object): object => ({
    id,
    match: { path: id },
    action: "agent",
    messageTemplate: "Do {{task}}.",
    dedupeKey: "{{id}}",
    sessionKey: "{{session}}",
    wakeMode: "next-heartbeat",
    deliver: true,
    channel: "acme",
    to: "{{session}}",
    ...more,
  });
  const provider = (name: string): object => ({
    type: "openai-compatible",
    baseUrl: `http://${name}.example/v1`,
    apiKey: "k-0123456789",
  });
  return {
    gateway: { token: OPERATOR_TOKEN, drainSeconds: 1 },
    hooks: {
      enabled: true,
      token: HOOK_TOKEN,
      tools: ["acme.*"],
      mappings: [mapping("work", {}), mapping("tight", { model: "beta/m", limits })],
    },
    channels: { acme: {} },
    models: { providers: { alpha: provider("alpha"), beta: provider("beta") } },
    agents: {
      defaults: { model: "alpha/m", heartbeat: { every: 0 }, maxConcurrent: 8 },
      list: [{ id: "main", tools: ["acme.*"] }],
    },
  };
}
