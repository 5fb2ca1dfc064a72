import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";

let world: World;
beforeEach(async () => {
  world = await createWorld({ workers: false });
});
afterEach(() => world.stop());

const ask = (path: string, init: RequestInit = {}) =>
  fetch(world.url + path, { redirect: "manual", ...init });
const signIn = (token: string, headers: Record<string, string> = {}) =>
  ask("/console/session", { method: "POST", body: new URLSearchParams({ token }), headers });

async function cookie(): Promise<string> {
  const answer = await signIn(world.gateway.operatorToken);
  expect([answer.status, answer.headers.get("location")]).toEqual([303, "/console"]);
  return (answer.headers.get("set-cookie") ?? "").split(";")[0] ?? "";
}

/** The page as the operator sees it. In a clone the first visit builds it, which takes a few seconds. */
async function openPage(
  headers: Record<string, string>,
): Promise<{ status: number; headers: Headers; text: string; assets: string[] }> {
  const answer = await ask("/console", { headers });
  const text = await answer.text();
  return {
    status: answer.status,
    headers: answer.headers,
    text,
    assets: text.match(/\/console\/assets\/[\w.-]+/g) ?? [],
  };
}

describe("who may see the console", () => {
  it("no one without the gateway token; a form asks for it", async () => {
    const answer = await ask("/console");
    expect(answer.status).toBe(401);
    expect(await answer.text()).toContain('action="/console/session"');
    const slash = await ask("/console/");
    expect([slash.status, slash.headers.get("location")]).toEqual([308, "/console"]);
    const { assets } = await openPage({ authorization: `Bearer ${world.gateway.operatorToken}` });
    expect(assets.length).toBeGreaterThan(1);
    for (const asset of assets) expect((await ask(asset)).status).toBe(401);
    expect((await ask("/console/routes.ts")).status).toBe(401);
    const session = { headers: { cookie: await cookie() } };
    for (const name of [
      "..%2fapp.ts",
      "assets/..%2findex.html",
      "assets/%2e%2e%2findex.html",
      "assets/none.js",
      "assets/.vite",
    ])
      expect([name, (await ask(`/console/${name}`, session)).status]).toEqual([name, 404]);
  });

  it("who shows it in a header, or in the form", async () => {
    const headers = { authorization: `Bearer ${world.gateway.operatorToken}` };
    expect((await openPage(headers)).status).toBe(200);
    const session = await cookie();
    const page = await openPage({ cookie: session });
    expect([page.status, page.headers.get("content-type")]).toEqual([
      200,
      "text/html; charset=utf-8",
    ]);
    // The page itself is asked for at each visit. Its parts are named by what is in them.
    expect(page.headers.get("cache-control")).toBe("no-store");
    for (const asset of page.assets) {
      const part = await ask(asset, { headers: { cookie: session } });
      const type = asset.endsWith(".css")
        ? "text/css; charset=utf-8"
        : "text/javascript; charset=utf-8";
      expect([part.status, part.headers.get("content-type")]).toEqual([200, type]);
      expect(part.headers.get("cache-control")).toBe("private, max-age=31536000, immutable");
      expect(part.headers.get("content-security-policy")).toContain("default-src 'none'");
    }
    expect((await ask("/console/style.css")).status).toBe(200);
  });

  it("gets an error if the token is wrong, and has to wait after twenty tries", async () => {
    let last = await signIn("wrong");
    expect([last.status, await last.text()]).toEqual([
      401,
      expect.stringContaining("not the gateway token"),
    ]);
    for (let n = 0; n < 20; n++) last = await signIn("wrong");
    expect([last.status, last.headers.get("set-cookie")]).toEqual([429, null]);
    expect((await signIn(world.gateway.operatorToken)).status).toBe(303);
  });

  it("keeps the session in a cookie that scripts cannot read and other sites cannot send, never the token", async () => {
    const plain = (await signIn(world.gateway.operatorToken)).headers.get("set-cookie") ?? "";
    expect(plain).toMatch(
      /^rouse-console=[\w-]{40,}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    );
    expect(plain).not.toContain(world.gateway.operatorToken);
    const behindTls = await signIn(world.gateway.operatorToken, { "x-forwarded-proto": "https" });
    expect(behindTls.headers.get("set-cookie")).toMatch(/; Secure$/);
    for (const sent of [{ "sec-fetch-site": "cross-site" }, { origin: "null" }])
      expect((await signIn(world.gateway.operatorToken, sent)).status).toBe(401);
    const { origin } = new URL(world.url);
    expect((await signIn(world.gateway.operatorToken, { origin })).status).toBe(303);
  });

  it("until signing out, or a restart of the gateway", async () => {
    const [session, other] = [await cookie(), await cookie()];
    const enter = async (value: string): Promise<number> =>
      (await ask("/console", { headers: { cookie: value } })).status;
    const out = await ask("/console/session/end", { method: "POST", headers: { cookie: session } });
    expect([out.status, out.headers.get("set-cookie")]).toEqual([
      303,
      expect.stringContaining("Max-Age=0"),
    ]);
    expect([await enter(session), await enter(other)]).toEqual([401, 200]);
    await world.gateway.stop();
    world = await createWorld({ workers: false, dir: world.dir });
    expect(await enter(other)).toBe(401);
  });
});

it("console: the page signs in again without being left, and gets its version", async () => {
  const again = await signIn(world.gateway.operatorToken, {
    "x-rouse-console": "1",
    "sec-fetch-site": "same-origin",
  });
  expect([again.status, again.headers.get("set-cookie")]).toEqual([
    204,
    expect.stringMatching(/^rouse-console=/),
  ]);
  const session = again.headers.get("set-cookie")?.split(";")[0] ?? "";
  const answer = await ask("/admin/v1/status", {
    headers: { cookie: session, "x-rouse-console": "1" },
  });
  expect([answer.status, answer.headers.get("x-rouse-version")]).toEqual([
    200,
    expect.stringMatching(/^\d+\.\d+\.\d+/),
  ]);
});

describe("what a session may do", () => {
  it("what the operator's interface has, from the page alone", async () => {
    const session = await cookie();
    for (const [name, sent, status] of [
      ["from the page", { "x-rouse-console": "1", "sec-fetch-site": "same-origin" }, 200],
      ["without the page's header", {}, 401],
      ["from another site", { "x-rouse-console": "1", "sec-fetch-site": "cross-site" }, 401],
      ["from another origin", { "x-rouse-console": "1", origin: "http://evil.example" }, 401],
    ] as const) {
      const headers = { cookie: session, ...sent };
      const answers = [
        await ask("/admin/v1/status", { headers }),
        await ask("/admin/v1/reload", { method: "POST", headers }),
        await ask("/metrics", { headers }),
        await ask("/hooks/wake", { method: "POST", headers }),
      ];
      expect([name, ...answers.map((answer) => answer.status)]).toEqual([
        name,
        status,
        status,
        401,
        401,
      ]);
    }
  });
});

it("console: pages load nothing from other sites and cannot be framed", async () => {
  const session = { cookie: await cookie() };
  const answers = [await ask("/console"), await ask("/docs"), await openPage(session)];
  for (const { headers } of answers) {
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:/);
    expect([headers.get("x-content-type-options"), headers.get("referrer-policy")]).toEqual([
      "nosniff",
      // Browsers hide the origin of a form from a page that says `no-referrer`.
      "same-origin",
    ]);
  }
  const form = await (await ask("/console")).text();
  for (const text of [form, (await openPage(session)).text])
    expect(text).not.toMatch(/https?:\/\/|<style|style=|onclick|<script>/);
});

describe("GET /docs", () => {
  it("shows every route of the document, and its fields", async () => {
    const answer = await ask("/docs");
    const page = await answer.text();
    expect([answer.status, answer.headers.get("content-type")]).toEqual([
      200,
      "text/html; charset=UTF-8",
    ]);
    const { paths } = (await (await ask("/openapi.json")).json()) as { paths: object };
    for (const path of Object.keys(paths)) expect(page).toContain(path);
    for (const words of ["sessionKey", "timeoutSeconds"]) expect(page).toContain(words);
    expect(page).not.toMatch(/<script|style="/);
    expect((await ask("/docs/style.css")).headers.get("content-type")).toBe(
      "text/css; charset=utf-8",
    );
  });
});

it.each([
  [302, "/console", {}],
  [302, "/docs", { console: "off" }],
  [302, "/docs", { adminPort: 0 }],
  [404, null, { adminPort: 0, docs: false }],
])("console: / answers %i with the location %s, with %j", async (status, location, gateway) => {
  const own = await createWorld({ start: false, workers: false, config: { gateway } });
  const answer = await own.get("/", {});
  expect([answer.status, answer.headers.get("location")]).toEqual([status, location]);
  await own.stop();
});
