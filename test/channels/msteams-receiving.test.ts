import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exportPKCS8, generateKeyPair, importPKCS8, SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import {
  activityRequest,
  APP_ID,
  BOT,
  channelMessage,
  directMessage,
  ENTRA,
  PERSONAL,
  USER,
} from "./teams-server.ts";
import { openTeams } from "./teams-world.ts";

const now = (): number => Math.floor(Date.now() / 1000);

describe("who may post to the bot", () => {
  it.each<[string, Record<string, unknown>]>([
    ["another audience", { aud: "11111111-2222-3333-4444-000000000000" }],
    ["two audiences of others", { aud: ["a", "b"] }],
    ["another issuer", { iss: "https://evil.example.com" }],
    ["a time that is over", { nbf: now() - 7200, exp: now() - 3600 }],
    ["a time that has not come", { nbf: now() + 3600, exp: now() + 7200 }],
    ["no end", { exp: undefined }],
    ["the address of another service", { serviceurl: "https://smba.trafficmanager.net/amer/" }],
    ["no address of a service", { serviceurl: undefined }],
  ])("not one with %s", async (_name, claims) => {
    const { server, post, received } = await openTeams();
    expect(await post(directMessage(server.url), await server.sign(claims))).toBe(403);
    expect(received).toEqual([]);
  });

  it("no one with another's key, with the public key as a secret, without a signature or without a token", async () => {
    const { server, post, channel, host, received } = await openTeams();
    const message = directMessage(server.url);
    const other = await generateKeyPair("RS256");
    expect(await post(message, await server.sign({}, { key: other.privateKey }))).toBe(403);
    expect(await post(message, await server.sign({}, { kid: "unknown" }))).toBe(403);
    const [, payload] = (await server.sign()).split(".");
    expect(
      await post(message, `${Buffer.from('{"alg":"none"}').toString("base64url")}.${payload}.`),
    ).toBe(403);
    const { keys } = (await (await fetch(`${server.url}/keys`)).json()) as { keys: unknown[] };
    const claims = {
      iss: "https://api.botframework.com",
      aud: APP_ID,
      serviceurl: server.url,
      exp: now() + 60,
    };
    const secret = new TextEncoder().encode(JSON.stringify(keys[0]));
    expect(
      await post(
        message,
        await new SignJWT(claims).setProtectedHeader({ alg: "HS256", kid: "one" }).sign(secret),
      ),
    ).toBe(403);
    const key = await importPKCS8(await exportPKCS8(server.key), "PS256");
    expect(
      await post(message, await server.sign({}, { key, kid: "of-any-kind", alg: "PS256" })),
    ).toBe(403);
    expect(await post(message, await server.sign({}, { kid: "of-any-kind" }))).toBe(200);
    received.length = 0;
    for (const token of ["x", "a.b.c", "..", "x".repeat(9000), "a b"])
      expect([401, 403]).toContain(await post(message, token));
    expect((await channel.request?.(activityRequest(message, undefined), host))?.status).toBe(401);
    expect(received).toEqual([]);
  });

  it("only keys that vouch for Teams, and only for Teams", async () => {
    const { server, post } = await openTeams();
    expect(
      await post(directMessage(server.url), await server.sign({}, { kid: "of-another-channel" })),
    ).toBe(403);
    expect(
      await post(
        directMessage(server.url, { channelId: "webchat" }),
        await server.sign({}, { kid: "of-another-channel" }),
      ),
    ).toBe(403);
    expect(await post(directMessage(server.url))).toBe(200);
  });

  it.each([
    "https://evil.example.com/",
    "https://evil.trafficmanager.net/teams/",
    "https://smba.trafficmanager.net.evil.example/",
    "https://smba.trafficmanager.net:8443/",
    "https://smba.trafficmanager.net@evil.example/",
    "https://token:x@smba.trafficmanager.net/",
    "http://smba.trafficmanager.net/teams/",
    "nonsense",
  ])(
    "no service at %s, whatever its token says: the bot's own token would go there",
    async (serviceUrl) => {
      const { server, post, received, dir } = await openTeams();
      expect(
        await post(directMessage(serviceUrl), await server.sign({ serviceurl: serviceUrl })),
      ).toBe(403);
      expect(received).toEqual([]);
      expect(readdirSync(dir)).toEqual([]);
    },
  );

  it("every service of Teams", async () => {
    const { server, post } = await openTeams();
    for (const serviceUrl of [
      "https://smba.trafficmanager.net/emea/",
      "https://smba.infra.gcc.teams.microsoft.com/teams",
    ])
      expect(
        await post(directMessage(serviceUrl), await server.sign({ serviceurl: serviceUrl })),
      ).toBe(200);
  });

  it("fetches metadata and keys once, and says so where they cannot be had", async () => {
    const { server, post, clock, logged } = await openTeams();
    const token = await server.sign();
    server.fail("metadata-down");
    expect(await post(directMessage(server.url), token)).toBe(503);
    expect(logged.join()).toContain("openIdUrl");
    server.fail("hang", 0);
    expect(await Promise.all([1, 2, 3].map(() => post(directMessage(server.url), token)))).toEqual([
      200, 200, 200,
    ]);
    expect(server.asked).toMatchObject({ metadata: 1, keys: 1 });
    clock.time += 25 * 3_600_000;
    server.fail("metadata-down");
    // The metadata that are held go on to hold; a new token is needed, since a day has passed for it too.
    expect(
      await post(directMessage(server.url), await server.sign({ exp: now() + 2 * 86_400 })),
    ).toBe(200);
  });

  it("no one is rejected for good while the keys cannot be fetched", async () => {
    const { server, post } = await openTeams();
    server.fail("keys-down");
    expect(await post(directMessage(server.url))).toBe(503);
    server.fail("hang", 0);
    expect(await post(directMessage(server.url))).toBe(200);
  });

  it("bounds the body and answers other requests plainly", async () => {
    const { server, channel, host } = await openTeams();
    const ask = async (path: string, init?: RequestInit) =>
      channel.request?.(new Request(`http://gateway.example/channels/msteams${path}`, init), host);
    expect((await ask("/other", { method: "POST" }))?.status).toBe(404);
    expect((await ask("/api/messages"))?.status).toBe(405);
    const token = await server.sign();
    const post = async (body: unknown) => channel.request?.(activityRequest(body, token), host);
    expect((await post(directMessage(server.url, { text: "x".repeat(256 * 1024) })))?.status).toBe(
      413,
    );
    for (const body of ["", "no json", "null", "[]", '"x"'])
      expect([400, 403]).toContain((await post(body))?.status);
  });
});

describe("the conversations that are known", () => {
  it("let the bot write first after a restart, where the user is reached", async () => {
    const world = await openTeams();
    await world.post(directMessage(world.server.url));
    const later = await openTeams({}, world);
    for (const to of [`user:${ENTRA}`, `user:${USER}`])
      expect(await later.send({ to })).toMatchObject({ status: "sent" });
    expect(world.server.arrived.map(({ to }) => to)).toEqual([PERSONAL, PERSONAL]);
    expect(world.server.opened).toEqual([]);
    const file = join(world.dir, `${APP_ID}.json`);
    expect(statSync(file).mode & 0o077).toBe(0);
    expect(readdirSync(world.dir)).toEqual([`${APP_ID}.json`]);
    expect(readFileSync(file, "utf8")).not.toContain("How is the build");
  });

  it("are learnt from an installation too, and not from what the bot itself does", async () => {
    const learnt = async (more: Record<string, unknown>): Promise<unknown> => {
      const { server, post, send } = await openTeams();
      await post(directMessage(server.url, more));
      await send({ to: `user:${ENTRA}` });
      return { opened: server.opened.length, to: server.arrived[0]?.to };
    };
    expect(await learnt({ type: "installationUpdate" })).toEqual({ opened: 0, to: PERSONAL });
    expect(
      await learnt({ type: "conversationUpdate", from: { id: BOT, aadObjectId: ENTRA } }),
    ).toEqual({ opened: 1, to: "a:opened-1" });
  });

  it("are not used where their service is no longer trusted, and not at all where the file is broken", async () => {
    const world = await openTeams();
    const file = join(world.dir, `${APP_ID}.json`);
    const reference = { serviceUrl: "https://evil.example.com", conversation: "a:evil", bot: BOT };
    writeFileSync(
      file,
      JSON.stringify([
        [`user:${ENTRA}`, reference],
        [PERSONAL, reference],
      ]),
    );
    expect(await world.send({ to: PERSONAL })).toMatchObject({ status: "sent" });
    expect(world.server.arrived).toHaveLength(1);
    writeFileSync(file, "{ not json");
    const later = await openTeams({}, world);
    expect(await later.send({ to: PERSONAL })).toMatchObject({ status: "sent" });
    expect(later.logged).toEqual([expect.stringContaining("learnt again")]);
    expect(await later.post(directMessage(world.server.url))).toBe(200);
    expect(JSON.parse(readFileSync(file, "utf8"))).toHaveLength(3);
  });

  it("hold until the gateway stops where they cannot be written", async () => {
    const { server, post, send, logged } = await openTeams(
      {},
      { server: (await openTeams()).server, dir: "/dev/null/state" },
    );
    expect(await post(directMessage(server.url))).toBe(200);
    expect(logged).toEqual([
      expect.stringContaining("cannot be read"),
      expect.stringContaining("could not be written"),
    ]);
    expect(await send({ to: `user:${USER}` })).toMatchObject({ status: "sent" });
    expect(server.opened).toEqual([]);
  });

  it("are all kept if many are learnt together", async () => {
    const { server, post, dir, logged } = await openTeams();
    const posts = Array.from({ length: 20 }, (_, n) =>
      post(
        channelMessage(server.url, {
          conversation: { id: `19:c${n}@thread.tacv2`, conversationType: "channel" },
        }),
      ),
    );
    expect(new Set(await Promise.all(posts))).toEqual(new Set([200]));
    expect(JSON.parse(readFileSync(join(dir, `${APP_ID}.json`), "utf8"))).toHaveLength(20);
    expect(logged).toEqual([]);
  });
});
