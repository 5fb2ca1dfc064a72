import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { shareName } from "../../src/http/request.ts";
import { createHold } from "../../src/intake/body.ts";
import { createBodyBudget } from "../../src/intake/body-budget.ts";
import { createAddressList } from "../../src/core/address.ts";
import { collectBody, createBodyMeter, type BodyProblem } from "../../src/core/body.ts";
import { createWorld, type World } from "../e2e/world.ts";

const SECRET = "a-signing-secret-0123456789";
const MIB = 2 ** 20;
const hmac = (text: string): string => createHmac("sha256", SECRET).update(text).digest("hex");
const hook = (path: string, auth: object, more: object = {}) => ({
  id: path,
  match: { path },
  auth,
  messageTemplate: "got {{n}}",
  ...more,
});

/** A channel whose author reads the body in the way that comes to mind first. */
const PLUGIN = `
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "acme",
  channel: () => ({
    send: async () => ({ status: "sent" }),
    request: async (request) => {
      if (request.url.endsWith("/careless")) return new Response(String(await request.json()));
      try { await request.json(); return new Response("read"); } catch { return new Response("broken", { status: 400 }); }
    },
  }),
});
`;

let world: World;
beforeAll(async () => {
  world = await createWorld({
    config: {
      channels: { acme: {} },
      hooks: {
        bodyTimeoutSeconds: 0.5,
        mappings: [
          hook("gh", { scheme: "github", secret: SECRET }, { maxBodyBytes: 25 * MIB }),
          hook("small", { scheme: "github", secret: SECRET }, { maxBodyBytes: 1024 }),
          hook("slack", { scheme: "slack", secret: SECRET }),
          hook("pd", { scheme: "pagerduty", secret: SECRET }),
        ],
      },
    },
    files: { "plugins/acme.ts": PLUGIN },
  });
});
afterAll(() => world.stop());

/** A connection on which raw bytes are sent. `text` is what came back; `closed` resolves when the gateway ends it. */
function open(
  send: string,
  to: { url: string } = world,
): {
  socket: Socket;
  text(): string;
  closed: Promise<void>;
  until(pattern: RegExp): Promise<string>;
} {
  const { hostname, port } = new URL(to.url);
  let text = "";
  const socket = connect(Number(port), hostname, () => socket.write(send));
  socket.on("data", (chunk) => (text += chunk.toString()));
  socket.on("error", () => undefined);
  const closed = new Promise<void>((resolve) => socket.on("close", () => resolve()));
  const until = async (pattern: RegExp): Promise<string> => {
    await vi.waitFor(() => expect(text).toMatch(pattern), { interval: 5 });
    return text;
  };
  return { socket, text: () => text, closed, until };
}

const post = (path: string, headers: Record<string, string | number>): string =>
  `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")}\r\n`;
const signed = (body: string): string =>
  post("/hooks/gh", {
    "x-hub-signature-256": `sha256=${hmac(body)}`,
    "content-length": body.length,
  }) + body;

describe("bodies of anonymous callers", () => {
  it.each([
    ["declared", post("/console/session", { "content-length": 300 * MIB })],
    [
      "chunked",
      `${post("/console/session", { "transfer-encoding": "chunked" })}10000\r\n${"x".repeat(0x10000)}\r\n`,
    ],
  ])("the sign-in form takes 4 KB: %s", async (_kind, request) => {
    const { until, closed } = open(request);
    expect(await until(/\r\n\r\n/)).toMatch(/^HTTP\/1.1 413[^]*connection: close/i);
    await closed;
  });

  it.each(["x", "careless"])(
    "a plugin's webhook has a clock, whatever the plugin does with the request: %s",
    async (path) => {
      const { until, closed } = open(
        `${post(`/channels/acme/${path}`, { "content-length": 50 })}{"a":`,
      );
      expect(await until(/body_timeout/)).toMatch(/^HTTP\/1.1 408/);
      await closed;
    },
  );

  it("a plugin's webhook has a limit, whatever the plugin does with the request", async () => {
    const { socket, until } = open(
      post("/channels/acme/x", { "content-length": 9 * MIB }) + "x".repeat(9 * MIB),
    );
    expect(await until(/body_too_large/)).toMatch(/^HTTP\/1.1 413/);
    socket.destroy();
    const answer = await fetch(`${world.url}/channels/acme/x`, { method: "POST", body: '{"a":1}' });
    expect([answer.status, await answer.text()]).toEqual([200, "read"]);
  });

  it("are not read without the scheme's signature header", async () => {
    const { until, closed } = open(post("/hooks/gh", { "content-length": 20 * MIB }));
    expect(await until(/\r\n\r\n/)).toMatch(/^HTTP\/1.1 401[^]*connection: close/i);
    await closed;
  });

  it("are not read with a stale timestamp", async () => {
    const time = Math.floor(Date.now() / 1000) - 600;
    const headers = {
      "x-slack-request-timestamp": time,
      "x-slack-signature": "v0=00",
      "content-length": 1000,
    };
    const { until, closed } = open(post("/hooks/slack", headers));
    expect(await until(/\r\n\r\n/)).toMatch(/^HTTP\/1.1 401/);
    await closed;
  });

  it("that declare much and send nothing turn no sender away", async () => {
    const idle = Array.from({ length: 256 }, () =>
      open(post("/hooks/gh", { "x-hub-signature-256": "sha256=00", "content-length": 25 * MIB })),
    );
    const answers = await Promise.all(
      [1, 2, 3].map((n) => open(signed(`{"n":${n}}`)).until(/\r\n\r\n/)),
    );
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1.1 202/);
    for (const { socket } of idle) socket.destroy();
  });
});

it("an answer that goes out before the body was read closes its connection", async () => {
  const { until, closed } = open(
    post("/hooks/agent", {
      authorization: "Bearer wrong-token-0123456789",
      "content-length": 1000,
    }),
  );
  expect(await until(/\r\n\r\n/)).toMatch(/^HTTP\/1.1 401[^]*connection: close/i);
  await closed;
});

it("at most eight signatures are compared", async () => {
  const body = '{"event":{"id":"1","event_type":"incident.triggered"}}';
  const list = (count: number): string =>
    [...Array<string>(count - 1).fill("v1=00"), `v1=${hmac(body)}`].join(",");
  const send = (count: number) =>
    world.post("/hooks/pd", body, { authorization: "", "x-pagerduty-signature": list(count) });
  expect((await send(9)).status).toBe(401);
  expect((await send(8)).status).toBe(202);
});

it("a caller over hooks.rateLimit is answered before its body is read, and what is not authenticated takes nothing from it", async () => {
  const own = await createWorld({
    workers: false,
    config: {
      hooks: {
        rateLimit: { requests: 2, per: "1h" },
        mappings: [hook("gh", { scheme: "github", secret: SECRET }, { maxBodyBytes: 25 * MIB })],
      },
    },
  });
  const send = (body: string, signature = hmac(body)) =>
    own.post("/hooks/gh", body, {
      authorization: "",
      "x-hub-signature-256": `sha256=${signature}`,
    });
  for (let n = 0; n < 5; n++) expect((await send(`{"bad":${n}}`, "00")).status).toBe(401);
  expect((await send('{"n":1}')).status).toBe(202);
  expect((await send('{"n":2}')).status).toBe(202);
  const { until, socket } = open(
    post("/hooks/gh", { "x-hub-signature-256": "sha256=00", "content-length": 20 * MIB }),
    own,
  );
  expect(await until(/\r\n\r\n/)).toMatch(/^HTTP\/1.1 429/);
  socket.destroy();
  await own.stop();
});

it("a signed body without a time is a duplicate for thirty days, whatever hooks.dedupe.ttl is", async () => {
  const own = await createWorld({
    workers: false,
    config: {
      hooks: {
        dedupe: { ttl: "10ms" },
        mappings: [
          hook("gh", { scheme: "github", secret: SECRET }),
          hook("pd", { scheme: "pagerduty", secret: SECRET }),
        ],
      },
    },
  });
  const body = '{"event":{"id":"01","event_type":"incident.triggered"}}';
  const send = (path: string, header: string, prefix: string) =>
    own.post(`/hooks/${path}`, body, { authorization: "", [header]: `${prefix}=${hmac(body)}` });
  for (const [path, header, prefix] of [
    ["gh", "x-hub-signature-256", "sha256"],
    ["pd", "x-pagerduty-signature", "v1"],
  ] as const) {
    const first = await send(path, header, prefix);
    await new Promise((resolve) => setTimeout(resolve, 30));
    const again = await send(path, header, prefix);
    expect([path, again.headers.get("idempotent-replayed"), again.body]).toEqual([
      path,
      "true",
      first.body,
    ]);
  }
  await own.stop();
});

describe("paths that mean another path than they say", () => {
  const admin = (path: string): Promise<string> => {
    const connection = open(
      `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${world.gateway.operatorToken}\r\nConnection: close\r\n\r\n`,
    );
    return connection.closed.then(() => connection.text().slice(9, 12));
  };

  it.each([
    "/hooks/../admin/v1/events",
    "/hooks/%2e%2e/admin/v1/events",
    "/hooks/..%2fadmin/v1/events",
    "/./admin/v1/events",
    "/%61dmin/v1/events",
    "/%2Fadmin/v1/events",
    "/adm%69n/v1/events",
    "/%6detrics",
    "/hooks/./wake",
  ])("%s is 404, also with the gateway token", async (path) => {
    expect(await admin(path)).toBe("404");
  });

  it("a backslash is no part of a path at all", async () => {
    expect(await admin("/hooks/..\\admin/v1/events")).toBe("400");
  });

  it("plain paths work", async () => {
    expect(await admin("/admin/v1/events")).toBe("200");
    expect(await admin("/metrics")).toBe("200");
  });
});

describe("the budget of unauthenticated bodies", () => {
  const clock = { at: 0, now: () => clock.at };
  const fill = (
    budget: ReturnType<typeof createBodyBudget>,
    share: string | undefined,
    bytes: number,
  ) => {
    const allowance = budget.open(share);
    return { allowance, ok: allowance.take(bytes) };
  };

  it("keeps a part for small bodies, and a share for every address", () => {
    const budget = createBodyBudget(clock);
    const large = Array.from({ length: 58 }, (_, n) => fill(budget, `10.0.0.${n}`, MIB));
    expect(large.every(({ ok }) => ok)).toBe(true);
    expect(fill(budget, "10.0.1.1", MIB).ok).toBe(false);
    expect(fill(budget, "10.0.1.1", 60_000).ok).toBe(true);
    for (const { allowance } of large) allowance.release();
    const greedy = Array.from({ length: 40 }, () => fill(budget, "10.0.0.1", MIB));
    expect(greedy.filter(({ ok }) => ok)).toHaveLength(16);
    expect(fill(budget, "10.0.0.2", MIB).ok).toBe(true);
  });

  it("lets a single large body have more than a share, and two of them arrive at once", () => {
    const budget = createBodyBudget(clock);
    expect(fill(budget, "10.0.0.1", 25 * MIB).ok).toBe(true);
    expect(fill(budget, "10.0.0.2", 25 * MIB).ok).toBe(true);
  });

  it("takes the room of the slowest body for those that arrive at once", () => {
    const budget = createBodyBudget(clock);
    const slow = Array.from({ length: 58 }, () => {
      const allowance = budget.open(undefined);
      const holder = { allowance, revoked: false };
      allowance.revoke = () => (holder.revoked = true);
      allowance.take(MIB);
      return holder;
    });
    expect(fill(budget, undefined, MIB).ok).toBe(false);
    clock.at += 3000;
    expect(fill(budget, undefined, MIB).ok).toBe(true);
    expect(slow.map(({ revoked }) => revoked).indexOf(true)).toBe(0);
    expect(slow.filter(({ revoked }) => revoked)).toHaveLength(1);
    expect(slow[0]?.allowance.take(1)).toBe(false);
  });

  it("knows addresses that stand for many callers", () => {
    const trusted = createAddressList(["10.9.9.9"]).list;
    expect(
      shareName("127.0.0.1", { peer: "127.0.0.1", forwarded: false, trusted: undefined }),
    ).toBeUndefined();
    expect(
      shareName("10.1.1.1", { peer: "10.1.1.1", forwarded: true, trusted: undefined }),
    ).toBeUndefined();
    expect(shareName("203.0.113.7", { peer: "10.9.9.9", forwarded: true, trusted })).toBe(
      "203.0.113.7",
    );
    expect(shareName("2001:db8::1", { peer: "2001:db8::1", forwarded: false, trusted })).toBe(
      "2001:db8:0:0",
    );
    expect(shareName("2001:db8:0:0:1::", { peer: "x", forwarded: false, trusted })).toBe(
      "2001:db8:0:0",
    );
  });
});

describe("a body that broke a limit", () => {
  it("is freed at once, and nothing more is read of it", async () => {
    const seen: Buffer[] = [];
    let message: IncomingMessage | undefined;
    const server = createServer((request) => {
      message = request;
      request.on("data", (chunk: Buffer) => void seen.push(chunk));
      void collectBody(request, undefined, { maxBytes: 100_000, timeoutMs: 5000 }).then(
        ({ ok }) => (ended = ok),
      );
    });
    let ended: boolean | undefined;
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const { socket } = open(post("/", { "content-length": 50 * MIB }), {
      url: `http://127.0.0.1:${port}`,
    });
    try {
      await once(socket, "connect");
      socket.write(Buffer.alloc(20 * MIB));
      await vi.waitFor(() => expect(ended).toBe(false), { interval: 5 });
      // What is thrown away is read after that.
      await vi.waitFor(() => expect(message?.socket.isPaused()).toBe(true), {
        timeout: 30_000,
        interval: 5,
      });
      const read = message?.socket.bytesRead ?? Infinity;
      socket.write(Buffer.alloc(20 * MIB));
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(message?.socket.bytesRead).toBe(read);
      // The limit, what is thrown away so that the sender can read its answer, and one read.
      expect(read).toBeLessThan(1.5 * MIB);
      expect(message?.readableLength).toBeLessThan(MIB / 8);
      expect(seen.slice(0, 2).map((chunk) => chunk.length)).toEqual([0, 0]);
    } finally {
      socket.destroy();
      server.closeAllConnections();
      server.close();
    }
  });

  it("of an unauthenticated caller is answered later, the more such answers wait", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const hold = createHold();
      const over: number[] = [];
      for (let n = 0; n < 30; n++) void hold().then(() => over.push(n));
      await vi.advanceTimersByTimeAsync(250);
      expect(over).toEqual([0]);
      await vi.advanceTimersByTimeAsync(750);
      expect(over).toEqual([0, 1, 2, 3]);
      await vi.advanceTimersByTimeAsync(4000);
      expect(over).toHaveLength(30);
      // So many that it is not about bodies any more.
      for (let n = 0; n < 2000; n++) void hold();
      let isOver = false;
      void hold().then(() => (isOver = true));
      await Promise.resolve();
      await Promise.resolve();
      expect(isOver).toBe(true);
    } finally {
      vi.useRealTimers();
    }
  });

  it("is answered, and its connection is closed", async () => {
    const headers = { "x-hub-signature-256": "sha256=00", "transfer-encoding": "chunked" };
    const chunk = `${(64 * 1024).toString(16)}\r\n${"x".repeat(64 * 1024)}\r\n`;
    const startedAt = performance.now();
    const { until, closed } = open(post("/hooks/small", headers) + chunk);
    expect(await until(/body_too_large/)).toMatch(/^HTTP\/1.1 413[^]*connection: close/i);
    expect(performance.now() - startedAt).toBeGreaterThan(240);
    await closed;
  });
});

describe("the clock of a body", () => {
  const run = (
    limits: { timeoutMs: number; idleMs?: number },
    arrivals: readonly [ms: number, bytes: number][],
  ): [BodyProblem, number] | undefined => {
    vi.useFakeTimers();
    try {
      let ended: [BodyProblem, number] | undefined;
      const startedAt = performance.now();
      const meter = createBodyMeter(
        { maxBytes: 1e9, ...limits },
        (problem) => (ended = [problem, Math.round((performance.now() - startedAt) / 1000)]),
      );
      let now = 0;
      for (const [ms, bytes] of arrivals) {
        vi.advanceTimersByTime(ms - now);
        now = ms;
        if (!ended) meter.add(bytes);
      }
      meter.end();
      return ended;
    } finally {
      vi.useRealTimers();
    }
  };
  const drip = (everyMs: number, bytes: number, times: number): [number, number][] =>
    Array.from({ length: times }, (_, n) => [(n + 1) * everyMs, bytes]);

  it("ends one that drips, after ten seconds", () => {
    expect(run({ timeoutMs: 30_000 }, drip(1000, 100, 60))).toEqual(["too_slow", 10]);
    expect(
      run({ timeoutMs: 1_800_000 }, [
        [100, 1_000_000],
        [900_000, 1],
        [1_200_000, 1],
      ]),
    ).toEqual(["too_slow", 977]);
  });

  it("ends one that takes too long at a good rate, and one that stalls", () => {
    expect(run({ timeoutMs: 30_000 }, drip(500, 1024, 100))).toEqual(["too_slow", 30]);
    expect(
      run({ timeoutMs: 1_800_000, idleMs: 30_000 }, [
        [100, 10_000_000],
        [60_000, 1],
      ]),
    ).toEqual(["too_slow", 31]);
  });

  it("lets a slow line finish", () => {
    expect(run({ timeoutMs: 1_800_000, idleMs: 30_000 }, drip(1000, 1500, 600))).toBeUndefined();
  });
});
