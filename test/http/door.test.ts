import { createHmac } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";
import { headerOf, openConnection, post, speak, statusOf } from "./raw.ts";

const SECRET = "a-signing-secret-0123456789";
const OTHER = "another-secret-0123456789";
const BASIC = { user: "u", password: "basic-password-0123456789" };
const WAKE = '{"text":"hi"}';
const bearer = { authorization: `Bearer ${TOKEN}` };

const hook = (path: string, auth: object) => ({
  id: path.replaceAll("/", "-"),
  match: { path },
  auth,
  messageTemplate: "x",
  deliver: false,
});
const hmac = (text: string): string => createHmac("sha256", SECRET).update(text).digest("hex");

let world: World;
beforeAll(async () => {
  world = await createWorld({
    workers: false,
    logLevel: "warn",
    env: { BASIC_PASSWORD: `${BASIC.password}\n`, OTHER_SECRET: `${OTHER}\r\n` },
    config: {
      hooks: {
        mappings: [
          hook("basic", { ...BASIC, password: "${BASIC_PASSWORD}" }),
          hook("gh", { scheme: "github", secret: SECRET }),
          hook("own", { token: "${OTHER_SECRET}" }),
          hook("deep/er", { token: OTHER }),
        ],
      },
    },
  });
});
afterAll(() => world.stop());

describe("connections", () => {
  it("idle connections: kept 75 seconds, which the answer says", async () => {
    const { ask, socket } = await openConnection(world.url);
    expect(headerOf(await ask(post("/hooks/wake", WAKE, bearer)), "keep-alive")).toBe("timeout=75");
    expect(statusOf(await ask(post("/hooks/wake", WAKE, bearer)))).toBe(200);
    socket.destroy();
  });

  it("idle connections: kept as long as gateway.keepAliveSeconds says, also after a reload", async () => {
    const own = await createWorld({ workers: false, config: { gateway: { keepAliveSeconds: 9 } } });
    const { ask, ended } = await openConnection(own.url);
    const timeout = async (): Promise<string | undefined> =>
      headerOf(await ask(post("/hooks/wake", WAKE, bearer)), "keep-alive");
    expect(await timeout()).toBe("timeout=9");
    own.write("rouse.json5", {
      gateway: { port: 0, drainSeconds: 1, keepAliveSeconds: 1 },
      hooks: { enabled: true, token: TOKEN },
    });
    await own.gateway.reload();
    expect(await timeout()).toBe("timeout=1");
    // The gateway closes it by itself.
    await ended;
    await own.stop();
  });

  it.each([
    ["/hooks/wake", { authorization: "Bearer wrong" }, 401],
    ["/hooks/wake", bearer, 413],
    ["/nothing", {}, 404],
  ])(
    "%s: a client that sends a whole body before it reads gets the answer to a body that is not wanted (%o)",
    async (path, headers, status) => {
      const { socket, ended } = await openConnection(world.url);
      socket.pause();
      const body = Buffer.alloc(8_000_000, 120);
      socket.write(post(path, "", { ...headers, "content-length": String(body.length) }));
      const problem = await new Promise((resolve) => socket.write(body, resolve));
      // The answer closes the connection, so these bytes are not read as a request.
      socket.write(post("/hooks/wake", WAKE, bearer));
      socket.resume();
      expect(problem ?? null).toBeNull();
      expect((await ended).match(/HTTP\/1.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`]);
    },
  );

  it("a stop: connections without a request are closed first", async () => {
    const own = await createWorld({ workers: false });
    const closed: string[] = [];
    const open = async (name: string, text?: string) => {
      const connection = await openConnection(own.url);
      connection.socket.once("close", () => closed.push(name));
      if (text !== undefined) await connection.ask(text);
      return connection;
    };
    const busy = await open("busy");
    busy.socket.write(post("/hooks/wake", WAKE, { ...bearer, "content-length": "100" }));
    await open("fresh");
    await open("answered", post("/hooks/wake", WAKE, bearer));
    await own.stop();
    await busy.ended;
    expect([closed.slice(0, 2).toSorted(), closed.slice(2)]).toEqual([
      ["answered", "fresh"],
      ["busy"],
    ]);
  });
});

describe("secrets of the environment", () => {
  it.each([
    ["a line feed", "/hooks/basic", basicHeader()],
    ["a carriage return and a line feed", "/hooks/own", { authorization: `Bearer ${OTHER}` }],
  ])("%s at the end is not part of them", async (_what, path, headers) => {
    expect((await world.post(path, {}, headers)).status).toBe(202);
  });
});

function basicHeader(): Record<string, string> {
  const pair = Buffer.from(`${BASIC.user}:${BASIC.password}`).toString("base64");
  return { authorization: `Basic ${pair}` };
}

describe("signatures", () => {
  const twilio = (url: string, fields: Record<string, string>): string =>
    createHmac("sha1", SECRET)
      .update(
        url +
          Object.keys(fields)
            .toSorted()
            .map((name) => name + fields[name])
            .join(""),
      )
      .digest("base64");

  it.each([
    ["https://hooks.example.com", ["", ":443"], [":80", ":8443"]],
    ["https://hooks.example.com:443", ["", ":443"], [":80"]],
    ["https://hooks.example.com:8443", ["", ":8443"], [":443"]],
    ["http://hooks.example.com/base/", ["", ":80"], [":443"]],
  ])(
    "publicUrl %s: the address is signed with its port and without",
    async (publicUrl, taken, refused) => {
      const own = await createWorld({
        workers: false,
        config: {
          gateway: { publicUrl },
          hooks: { mappings: [hook("sms", { scheme: "twilio", secret: SECRET })] },
        },
      });
      const { protocol, hostname, pathname } = new URL(publicUrl);
      const send = async (port: string): Promise<number> => {
        const fields = { Body: `hi ${port}`, From: "+15550100" };
        const target = "/hooks/sms?x='a'%20b";
        const url = `${protocol}//${hostname}${port}${pathname.replace(/\/$/, "")}${target}`;
        const body = new URLSearchParams(fields).toString();
        const { ask, socket } = await openConnection(own.url);
        const answer = await ask(
          post(target, body, {
            "content-type": "application/x-www-form-urlencoded",
            "x-twilio-signature": twilio(url, fields),
          }),
        );
        socket.destroy();
        return statusOf(answer);
      };
      expect(await Promise.all([...taken, ...refused].map(send))).toEqual([
        ...taken.map(() => 202),
        ...refused.map(() => 401),
      ]);
      await own.stop();
    },
  );

  it.each([
    ["a space", (hex: string) => `sha256= ${hex}`],
    ["a tab", (hex: string) => `sha256=\t${hex}`],
    ["upper case", (hex: string) => `SHA256=${hex.toUpperCase()}`],
  ])("%s in the header does not matter", async (what, write) => {
    const body = JSON.stringify({ what });
    const { ask, socket } = await openConnection(world.url);
    const answer = await ask(post("/hooks/gh", body, { "x-hub-signature-256": write(hmac(body)) }));
    expect(statusOf(answer)).toBe(202);
    socket.destroy();
  });
});

describe("addresses", () => {
  it.each([
    ["//hooks/wake", 200],
    ["/hooks//wake", 200],
    ["///hooks///wake//?x=1", 200],
    ["/hooks/%77ake/", 200],
    ["/hooks/deep//er", 401],
    // A proxy in front may keep these from the outside by how they begin.
    ["//v1/agents", 404],
    ["//admin/v1/status", 404],
    ["//%61dmin/v1/status", 404],
    ["/%70lugins/x/y", 404],
  ])("%s: %i", async (path, status) => {
    const { ask, socket } = await openConnection(world.url);
    expect(statusOf(await ask(post(path, WAKE, bearer)))).toBe(status);
    socket.destroy();
  });

  it("slashes in a row count as one in paths of the API and of the operator too", async () => {
    const ask = async (path: string): Promise<number> =>
      (
        await fetch(`${world.url}${path}`, {
          headers: { authorization: `Bearer ${world.gateway.operatorToken}` },
        })
      ).status;
    expect(await ask("/admin//v1/status")).toBe(200);
    expect(await ask("/v1//agents")).toBe(401);
    expect(await ask("/v1//nothing//here")).toBe(401);
  });

  it.each([
    ["POST /hooks/wake", 200],
    ["POST //hooks/wake", 200],
    ["GET /livez", 200],
    ["GET /hooks/runs/none", 404],
  ])("HTTP/1.0 without a host: %s", async (line, status) => {
    const body = line.startsWith("POST") ? WAKE : "";
    const answer = await speak(
      world.url,
      `${line} HTTP/1.0\r\nAuthorization: Bearer ${TOKEN}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    expect(statusOf(answer)).toBe(status);
  });

  it.each(["[::1]:7420", "[::1]", "127.0.0.1:80", "Example.COM:7420", ""])(
    "the host %j is answered",
    async (host) => {
      const { ask, socket } = await openConnection(world.url);
      expect(statusOf(await ask(post("/hooks/wake", WAKE, { ...bearer, host })))).toBe(200);
      socket.destroy();
    },
  );

  it.each([
    ["rouse.1", 401],
    ["1.2.3.4.5", 401],
    ["127.0.0.1:99999", 400],
  ])(
    "the host %j, which no URL can have: rejected requests are answered",
    async (host, wakeStatus) => {
      for (const [path, status] of [
        ["/hooks/wake", wakeStatus],
        ["/channels/desk/x", 400],
      ] as const) {
        const { ask, socket } = await openConnection(world.url);
        expect(statusOf(await ask(post(path, WAKE, { host })))).toBe(status);
        socket.destroy();
      }
    },
  );
});

describe("answers", () => {
  it.each([
    ["the hook token", "POST", "/hooks/wake", 'Bearer realm="rouse"'],
    ["a token of a path", "POST", "/hooks/own", 'Bearer realm="rouse"'],
    ["basic authentication", "POST", "/hooks/basic", 'Basic realm="rouse", charset="UTF-8"'],
    ["a signature", "POST", "/hooks/gh", 'Signature realm="rouse"'],
    ["an API key", "GET", "/v1/agents", 'Bearer realm="rouse"'],
    ["the gateway token", "GET", "/admin/v1/status", 'Bearer realm="rouse"'],
    ["details of readiness", "GET", "/readyz?detail", 'Bearer realm="rouse"'],
    ["the console", "GET", "/console", 'Bearer realm="rouse"'],
    ["a page of the console", "GET", "/console/other", 'Bearer realm="rouse"'],
  ])("401 for want of %s says how to authenticate", async (_what, method, path, challenge) => {
    const answer = await fetch(`${world.url}${path}`, { method });
    expect([answer.status, answer.headers.get("www-authenticate")]).toEqual([401, challenge]);
  });

  it("a token in the query: the answer has the days since when it is deprecated and when it goes, and the log too", async () => {
    const answer = await fetch(`${world.url}/hooks/wake?token=${TOKEN}`, {
      method: "POST",
      body: WAKE,
    });
    expect(answer.status).toBe(200);
    const since = /^@(\d+)$/.exec(answer.headers.get("deprecation") ?? "")?.[1];
    const until = answer.headers.get("sunset") ?? "";
    expect(Number(since) * 1000).toBeLessThan(Date.parse(until));
    const line = world.logged.find((logged) => logged.includes("?token="));
    expect(line).toContain("deprecated");
    expect(line).toContain(new Date(until).toISOString().slice(0, 10));
  });
});
