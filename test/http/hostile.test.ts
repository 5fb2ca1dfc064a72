import { createHmac } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { shareName } from "../../src/http/transport.ts";
import { createHold } from "../../src/intake/body.ts";
import { createBodyBudget } from "../../src/intake/body-budget.ts";
import { createAddressList } from "../../src/core/http/address.ts";
import { collectBody, createBodyMeter, type BodyProblem } from "../../src/core/http/body.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { openConnection, post, speak, statusOf } from "./raw.ts";

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

/** Sends raw bytes over a connection of its own, and returns what is answered first. */
async function ask(text: string, to: { url: string } = world) {
  const { socket, ended, ask: send } = await openConnection(to.url);
  return { answer: await send(text), socket, ended };
}

const declares = (path: string, bytes: number, headers: Record<string, string> = {}): string =>
  post(path, "", { ...headers, "content-length": String(bytes) });
const WRONG = { "x-hub-signature-256": "sha256=00" };
const signed = (body: string): string =>
  post("/hooks/gh", body, { "x-hub-signature-256": `sha256=${hmac(body)}` });

describe("bodies of anonymous callers", () => {
  it.each([
    ["declared", declares("/console/session", 300 * MIB)],
    [
      "chunked",
      `${post("/console/session", "", { "transfer-encoding": "chunked" })}10000\r\n${"x".repeat(0x10000)}\r\n`,
    ],
  ])("the sign-in form takes 4 KB: %s", async (_kind, request) => {
    const { answer, ended } = await ask(request);
    expect(answer).toMatch(/^HTTP\/1.1 413[^]*connection: close/i);
    await ended;
  });

  it.each(["x", "careless"])(
    "a plugin's webhook has a clock, whatever the plugin does with the request: %s",
    async (path) => {
      const { answer, ended } = await ask(`${declares(`/channels/acme/${path}`, 50)}{"a":`);
      expect(answer).toMatch(/^HTTP\/1.1 408[^]*body_timeout/);
      await ended;
    },
  );

  it("a plugin's webhook has a limit, whatever the plugin does with the request", async () => {
    // With the time by default: a busy processor may need more than half a second for nine megabytes.
    const patient = await createWorld({
      config: { channels: { acme: {} } },
      files: { "plugins/acme.ts": PLUGIN },
    });
    try {
      const { socket, answer } = await ask(post("/channels/acme/x", "x".repeat(9 * MIB)), patient);
      expect(answer).toMatch(/^HTTP\/1.1 413[^]*body_too_large/);
      socket.destroy();
      const short = await fetch(`${patient.url}/channels/acme/x`, {
        method: "POST",
        body: '{"a":1}',
      });
      expect([short.status, await short.text()]).toEqual([200, "read"]);
    } finally {
      await patient.stop();
    }
  });

  const stale = {
    "x-slack-request-timestamp": String(Math.floor(Date.now() / 1000) - 600),
    "x-slack-signature": "v0=00",
  };
  it.each<[string, string, Record<string, string>]>([
    ["without the scheme's signature header", "/hooks/gh", {}],
    ["with a stale timestamp", "/hooks/slack", stale],
    ["with a wrong token", "/hooks/agent", { authorization: "Bearer wrong-token-0123456789" }],
  ])("are not read %s: the answer closes the connection", async (_what, path, headers) => {
    const { answer, ended } = await ask(declares(path, 20 * MIB, headers));
    expect(answer).toMatch(/^HTTP\/1.1 401[^]*connection: close/i);
    await ended;
  });

  it("that declare much and send nothing turn no sender away", async () => {
    const idle = await Promise.all(
      Array.from({ length: 256 }, async () => (await openConnection(world.url)).socket),
    );
    for (const socket of idle) socket.write(declares("/hooks/gh", 25 * MIB, WRONG));
    const answers = await Promise.all([1, 2, 3].map((n) => ask(signed(`{"n":${n}}`))));
    expect(answers.map(({ answer }) => statusOf(answer))).toEqual([202, 202, 202]);
    for (const socket of [...idle, ...answers.map((one) => one.socket)]) socket.destroy();
  });
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
  const { answer, socket } = await ask(declares("/hooks/gh", 20 * MIB, WRONG), own);
  expect(answer).toMatch(/^HTTP\/1.1 429/);
  socket.destroy();
  await own.stop();
});

describe("paths that mean another path than they say", () => {
  const admin = async (path: string): Promise<number> =>
    statusOf(
      await speak(
        world.url,
        `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${world.gateway.operatorToken}\r\nConnection: close\r\n\r\n`,
      ),
    );

  it.each([
    ["/admin/v1/events", 200],
    ["/metrics", 200],
    ["/hooks/../admin/v1/events", 404],
    ["/hooks/%2e%2e/admin/v1/events", 404],
    ["/hooks/..%2fadmin/v1/events", 404],
    ["/./admin/v1/events", 404],
    ["/%61dmin/v1/events", 404],
    ["/%2Fadmin/v1/events", 404],
    ["/adm%69n/v1/events", 404],
    ["/%6detrics", 404],
    ["/hooks/./wake", 404],
    // A backslash is no part of a path at all.
    ["/hooks/..\\admin/v1/events", 400],
  ])("%s is %i, with the gateway token", async (path, status) => {
    expect(await admin(path)).toBe(status);
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

  it("lets a single large body have more than a share, and two of them arrive together", () => {
    const budget = createBodyBudget(clock);
    expect(fill(budget, "10.0.0.1", 25 * MIB).ok).toBe(true);
    expect(fill(budget, "10.0.0.2", 25 * MIB).ok).toBe(true);
  });

  it("takes the room of the slowest body for those that arrive together", () => {
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
  it("is freed immediately, and nothing more is read of it", async () => {
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
    const { socket } = await openConnection(`http://127.0.0.1:${port}`);
    try {
      socket.write(declares("/", 50 * MIB));
      socket.write(Buffer.alloc(20 * MIB));
      await vi.waitFor(() => expect(ended).toBe(false), { interval: 5 });
      // After the limit, a bounded rest is read and dropped. Then the socket is paused.
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
    const headers = { ...WRONG, "transfer-encoding": "chunked" };
    const chunk = `${(64 * 1024).toString(16)}\r\n${"x".repeat(64 * 1024)}\r\n`;
    const startedAt = performance.now();
    const { answer, ended } = await ask(post("/hooks/small", "", headers) + chunk);
    expect(answer).toMatch(/^HTTP\/1.1 413[^]*connection: close[^]*body_too_large/i);
    expect(performance.now() - startedAt).toBeGreaterThan(240);
    await ended;
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
