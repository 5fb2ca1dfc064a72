import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { startProgram, type Program } from "./program.ts";
import { createProvider, modelConfig } from "./provider.ts";
import { TOKEN } from "./world.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const GATEWAY_TOKEN = "limits-gateway-token-0123456789";
export const RUN_TOKENS = 14;
/** The cost of a run in US dollars, by the prices of the config. */
export const RUN_USD = 0.014;

/** The longest time for which calls are held until all places are taken at the same moment. */
const FILL_MS = 15_000;

export const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

/** The limits of each mapping, and of all hooks together (`hooks`). */
export type Limits = Record<string, object>;

/** A hook, as its sender and the model server saw it. Times are those of `performance.now()`. */
export interface Order {
  n: number;
  mapping: string;
  acceptedAt?: number;
  /** When the model was first asked for it. */
  startedAt?: number;
  /** Calls of the model, and those that it answered. */
  calls: number;
  answers: number;
}

/** The most calls of the model at the same moment: of each mapping, and of all hooks together (`hooks`). */
class Overlap {
  readonly #now = new Map<string, number>();
  readonly most = new Map<string, number>();
  readonly #places: number;

  /** `places`: how many calls of all hooks may be under way. */
  constructor(places: number) {
    this.#places = places;
  }

  /** True once all places have been taken at the same moment. */
  isFilled(): boolean {
    return (this.most.get("hooks") ?? 0) >= this.#places;
  }

  isUnderWay(mapping: string): boolean {
    return (this.#now.get(mapping) ?? 0) > 0;
  }

  enter(mapping: string): () => void {
    for (const name of [mapping, "hooks"]) {
      const count = (this.#now.get(name) ?? 0) + 1;
      this.#now.set(name, count);
      this.most.set(name, Math.max(count, this.most.get(name) ?? 0));
    }
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      for (const name of [mapping, "hooks"]) this.#now.set(name, (this.#now.get(name) ?? 0) - 1);
    };
  }
}

/** Gateways with limits, their senders, and a model server that counts. */
export interface Load {
  orders: Order[];
  overlap: Overlap;
  /** Answers 503 with Retry-After, by mapping. */
  refused: Map<string, number>;
  /** Answers that no sender may get. */
  odd: string[];
  /** Writes the config: gateways that run reload it. */
  configure(limits: Limits): void;
  start(): Promise<Program>;
  /** Sends hooks of a mapping one after the other, each until it is accepted, or refused by a full queue. */
  send(mapping: string, count: number, everyMs: number): Promise<void>;
  /** Orders of a mapping that the model was asked for. */
  started(mapping: string): number;
  admin(path: string): Promise<Record<string, unknown>>;
  close(): Promise<void>;
}

export interface LoadOptions {
  /** The number of runs of all hooks that may run at the same time. */
  places: number;
  storeUrl: string | undefined;
  /** The gateways that run now. */
  urls(): readonly string[];
}

/** The config of the gateways: each hook has a session key of its own, and each run uses the same tokens. */
function buildConfig(
  provider: Parameters<typeof modelConfig>[0],
  { hooks, ...mappings }: Limits,
  storeUrl: string | undefined,
): object {
  const { models, agents } = modelConfig(provider) as {
    models: object;
    agents: { defaults: object };
  };
  return {
    gateway: { port: 0, drainSeconds: 2, token: GATEWAY_TOKEN },
    ...(storeUrl !== undefined && { store: { url: storeUrl } }),
    models: { ...models, prices: { "local/big": { input: 1000, output: 1000 } } },
    agents: { defaults: { ...agents.defaults, maxConcurrent: 16 } },
    hooks: {
      enabled: true,
      token: TOKEN,
      limits: hooks,
      mappings: Object.entries(mappings).map(([id, limits]) => ({
        id,
        match: { path: id },
        messageTemplate: `{{ "order-" & n & "." }}`,
        sessionKey: `hook:${id}:{{n}}`,
        deliver: false,
        wakeMode: "next-heartbeat",
        limits,
      })),
    },
  };
}

export async function createLoad({ places, storeUrl, urls }: LoadOptions): Promise<Load> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-limits-"));
  const provider = await createProvider();
  const orders: Order[] = [];
  const overlap = new Overlap(places);
  const refused = new Map<string, number>();
  const odd: string[] = [];

  provider.answer = async (request, response) => {
    const order = orders[Number(/order-(\d+)\./.exec(provider.text(request))?.[1])];
    if (!order) throw new Error("the model was asked for what nobody ordered");
    order.calls++;
    order.startedAt ??= performance.now();
    const leave = overlap.enter(order.mapping);
    // The connection of a gateway that is killed is closed.
    response.on("close", leave);
    await pause(40 + Math.random() * 80);
    // On a busy machine runs start so slowly that the places would never all be taken.
    for (const end = performance.now() + FILL_MS; !overlap.isFilled() && performance.now() < end;)
      await pause(20);
    if (!response.destroyed) order.answers++;
    leave();
    return "done";
  };

  /** Posts an order to any gateway. False if it has to be sent again. */
  const post = async (order: Order): Promise<boolean> => {
    const known = urls();
    const url = known[Math.floor(Math.random() * known.length)];
    if (url === undefined) return false;
    const answer = await fetch(`${url}/hooks/${order.mapping}`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${TOKEN}`,
        "content-type": "application/json",
        "idempotency-key": `order-${order.n}`,
      },
      body: JSON.stringify({ n: order.n }),
      signal: AbortSignal.timeout(20_000),
    });
    const text = await answer.text();
    if (answer.status === 202) order.acceptedAt = performance.now();
    else if (answer.status !== 503 || !answer.headers.has("retry-after"))
      odd.push(`${answer.status} ${text.slice(0, 200)}`);
    else if (text.includes("limits.queue"))
      refused.set(order.mapping, (refused.get(order.mapping) ?? 0) + 1);
    else return false;
    return true;
  };

  return {
    orders,
    overlap,
    refused,
    odd,
    configure: (limits) =>
      writeFileSync(
        join(dir, "rouse.json5"),
        JSON.stringify(buildConfig(provider, limits, storeUrl)),
      ),
    start: () =>
      startProgram(process.execPath, [join(ROOT, "bin/rouse.js"), "start"], {
        cwd: dir,
        env: { ROUSE_LOG_LEVEL: process.env["FLEET_LOG"] ?? "silent" },
      }),
    async send(mapping, count, everyMs) {
      for (let sent = 0; sent < count; sent++) {
        const order: Order = { n: orders.length, mapping, calls: 0, answers: 0 };
        orders.push(order);
        // The same key: a hook whose answer was lost is not accepted twice.
        while (!(await post(order).catch(() => false))) await pause(100);
        await pause(everyMs);
      }
    },
    started: (mapping) =>
      orders.filter((order) => order.mapping === mapping && order.startedAt !== undefined).length,
    async admin(path) {
      const answer = await fetch(`${urls()[0]}/admin/v1/${path}`, {
        headers: { authorization: `Bearer ${GATEWAY_TOKEN}` },
      });
      if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
      return (await answer.json()) as Record<string, unknown>;
    },
    async close() {
      await provider.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
