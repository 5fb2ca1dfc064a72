import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLogger } from "../../src/core/log.ts";
import { openGateway } from "../../src/gateway/gateway.ts";
import { BOT_TOKEN, startSlack, type SlackServer } from "../../test/channels/slack-server.ts";
import { startTelegram } from "../../test/channels/telegram-server.ts";
import { startModel } from "../../test/platform/model.ts";
import { SHOP, teach, type Troubles } from "./agent.ts";
import { createHistoryClock, type HistoryClock } from "./clock.ts";
import { createRandom, type Hook } from "./senders.ts";

const LOOKS = 300;
const LOOKS_AT_QUEUE = 8;
const TOKEN = "gallery-hook-token-0123456789";

/** A gateway with senders, an agent, and channels, whose clock is moved. */
export interface Gallery {
  url: string;
  operatorToken: string;
  clock: HistoryClock;
  random: () => number;
  slack: SlackServer;
  /** The faults of the next model calls. */
  troubles: Troubles;
  post(hook: Hook): Promise<void>;
  /** A request without the hook token, from an address. */
  knock(path: string, address: string, headers?: Record<string, string>): Promise<void>;
  // oxlint-disable-next-line typescript/no-explicit-any -- answers of every shape
  admin(path: string, method?: string, body?: object | string): Promise<any>;
  /** Waits until no run is under way, apart from those that hang. */
  settle(hanging?: number): Promise<void>;
  stop(): Promise<void>;
}

const large = { type: "order.paid", "order.total": { $gte: 250 } };
const MAPPINGS = [
  {
    id: "shop.refund",
    match: { path: "shop", payload: { type: "refund.requested" } },
    name: "Refund {{order.number}}",
    agentId: "support",
    sessionKey: "hook:shop:{{order.customer.email}}",
    tools: ["shop.*"],
    approve: ["shop.refund"],
    channel: "slack",
    to: "C0SUPPORT1",
    messageTemplate: [
      "{{order.customer.name}} asks for a refund of the order {{order.number}} over {{order.total}} {{order.currency}}.",
      "Reason: {{reason}}",
      "Customer: {{order.customer.email}}",
    ],
  },
  {
    id: "shop.large-order",
    match: { path: "shop", payload: large },
    name: "Large order {{order.number}}",
    agentId: "support",
    sessionKey: "hook:shop:{{order.customer.email}}",
    limits: { runsPerHour: 4 },
    deliver: false,
    messageTemplate: [
      "Check the order {{order.number}} of {{order.customer.name}}: {{order.total}} {{order.currency}}.",
      "Voucher: {{order.voucher}}",
    ],
  },
  {
    id: "shop.basket",
    match: { path: "shop", payload: { type: "basket.abandoned" } },
    transform: { jsonata: "null" },
  },
  {
    id: "billing.invoice",
    match: { path: "billing" },
    name: "Invoice {{invoice.id}}",
    messageTemplate: "An invoice of {{$number(invoice.amount)}} EUR for {{invoice.customer}}.",
  },
  {
    id: "newsletter.reply",
    match: { path: "newsletter" },
    name: "Reply to the newsletter",
    model: "local/llama-4",
    messageTemplate: "{{from}} wrote:\n{{text}}",
  },
];

const buildConfig = (
  modelUrl: string,
  slackUrl: string,
  telegram: { url: string; token: string },
): object => ({
  gateway: { port: 0, drainSeconds: 1, trustedProxies: ["127.0.0.1", "::1", "::ffff:127.0.0.1"] },
  hooks: {
    enabled: true,
    token: TOKEN,
    tools: ["shop.order", "shop.note"],
    // A run of the heartbeat for each summary would hide the runs that are of interest.
    summary: "quiet",
    presets: [
      {
        use: "github",
        auth: "token",
        channel: "slack",
        to: "C0DEVELOP1",
        events: ["issue", "pull_request", "workflow_run", "push"],
      },
      { use: "stripe", auth: "token", channel: "slack", to: "C0PAYMENT1", agentId: "support" },
      { use: "alertmanager", channel: "telegram", to: "-1001234567890" },
    ],
    mappings: MAPPINGS,
  },
  channels: {
    slack: {
      botToken: BOT_TOKEN,
      apiUrl: slackUrl,
      allowFrom: ["U0ANN00001"],
      defaultTo: "C0DEVELOP1",
    },
    telegram: { token: telegram.token, apiUrl: telegram.url, allowFrom: ["42"], defaultTo: "42" },
  },
  models: {
    providers: {
      openai: { type: "openai-compatible", baseUrl: modelUrl, apiKey: "provider-key-0123456789" },
      local: { type: "openai-compatible", baseUrl: modelUrl, apiKey: "provider-key-0123456789" },
    },
    prices: {
      "openai/gpt-5-mini": { input: 0.25, cachedInput: 0.025, output: 2 },
      "local/llama-4": { input: 0, output: 0 },
    },
  },
  plugins: { settings: { shop: {} } },
  tools: { untrusted: "allow" },
  agents: {
    defaults: { model: "openai/gpt-5-mini", heartbeat: { every: 0 } },
    list: [
      { id: "ops", name: "Operations", tools: ["shop.order"] },
      { id: "support", name: "Customer support", tools: ["shop.*"] },
    ],
  },
});

const SHADOW = {
  id: "stock",
  mappings: [
    {
      id: "shop.stock-low",
      shadow: true,
      match: { path: "shop", payload: { type: "stock.changed", left: { $lt: 10 } } },
      messageTemplate: "{{sku}} has {{left}} left.",
    },
  ],
};

/** Starts a gateway in a folder of its own, `daysAgo` in the past, or in the present. */
export async function openGallery(daysAgo: number): Promise<Gallery> {
  const dir = mkdtempSync(join(tmpdir(), "rouse-gallery-"));
  const clock = createHistoryClock(Date.now() - daysAgo * 86_400_000);
  const random = createRandom(7);
  const [model, slack, telegram] = await Promise.all([startModel(), startSlack(), startTelegram()]);
  const troubles = teach(model, clock, random);
  writeFileSync(
    join(dir, "rouse.json5"),
    JSON.stringify(
      daysAgo > 0
        ? buildConfig(model.url, slack.url, telegram)
        : { gateway: { port: 0 }, hooks: { enabled: true, token: TOKEN } },
      null,
      2,
    ),
  );
  if (daysAgo > 0) {
    mkdirSync(join(dir, "plugins"));
    writeFileSync(join(dir, "plugins", "shop.ts"), SHOP);
    mkdirSync(join(dir, "mappings"));
    writeFileSync(join(dir, "mappings", "stock.json"), JSON.stringify(SHADOW, null, 2));
  }
  const gateway = await openGateway({
    cwd: dir,
    env: {},
    clock,
    fetch: globalThis.fetch,
    log: createLogger("silent"),
    print: () => undefined,
  });
  const { url } = await gateway.start({ listen: true });
  const admin: Gallery["admin"] = async (path, method = "GET", body) => {
    const response = await fetch(`${url}/admin/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${gateway.operatorToken}`,
        "content-type": "application/json",
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const answer = (await response.json()) as object;
    if (!response.ok)
      throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`);
    return answer;
  };
  const count = async (status: string): Promise<number> =>
    (await admin(`/runs?status=${status}&limit=20`)).runs.length;
  const settle = async (hanging = 0): Promise<void> => {
    for (let look = 0; look < LOOKS; look++) {
      // Runs behind one that waits for a person stay queued.
      if (
        (await count("running")) <= hanging &&
        (look > LOOKS_AT_QUEUE || (await count("queued")) === 0)
      )
        return;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const send = async (
    path: string,
    body: string,
    headers: Record<string, string>,
  ): Promise<void> => {
    await (
      await fetch(`${url}/hooks/${path}`, {
        method: "POST",
        body,
        headers: { "content-type": "application/json", ...headers },
      })
    ).text();
  };
  return {
    url,
    operatorToken: gateway.operatorToken,
    clock,
    random,
    slack,
    troubles,
    admin,
    settle,
    post: ({ path, body, headers }) =>
      send(path, typeof body === "string" ? body : JSON.stringify(body), {
        authorization: `Bearer ${TOKEN}`,
        "x-forwarded-for": "140.82.115.14",
        ...headers,
      }),
    knock: (path, address, headers = {}) =>
      send(path, "{}", { "x-forwarded-for": address, ...headers }),
    async stop() {
      await gateway.stop();
      await Promise.all([model, slack, telegram].map((server) => server.close()));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
