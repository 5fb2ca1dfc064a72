import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Window } from "happy-dom";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createWorld, type World } from "../e2e/world.ts";

const realFetch = globalThis.fetch;
const FILES = join(import.meta.dirname, "../../src/http/console");
const SCRIPTS = readdirSync(FILES).filter((name) => name.endsWith(".js"));
const MARKUP = `<img src=x onerror="globalThis.broken=1"><script>globalThis.broken=1</script>`;

let world: World;
beforeEach(async () => {
  world = await createWorld({ workers: false });
});
afterEach(() => world.stop());

const ask = (path: string, init: RequestInit = {}) => fetch(world.url + path, { redirect: "manual", ...init });
const signIn = (token: string, headers: Record<string, string> = {}) =>
  ask("/console/session", { method: "POST", body: new URLSearchParams({ token }), headers });

async function cookie(): Promise<string> {
  const answer = await signIn(world.gateway.operatorToken);
  expect([answer.status, answer.headers.get("location")]).toEqual([303, "/console"]);
  return (answer.headers.get("set-cookie") ?? "").split(";")[0] ?? "";
}

describe("who may see the console", () => {
  it("nobody without the gateway token; a form asks for it", async () => {
    const answer = await ask("/console");
    expect(answer.status).toBe(401);
    expect(await answer.text()).toContain('action="/console/session"');
    for (const script of SCRIPTS) expect((await ask(`/console/${script}`)).status).toBe(401);
    expect((await ask("/console/routes.ts")).status).toBe(401);
    expect((await ask("/console/..%2fapp.ts")).status).toBe(404);
  });

  it("who shows it in a header, or in the form", async () => {
    const headers = { authorization: `Bearer ${world.gateway.operatorToken}` };
    expect((await ask("/console", { headers })).status).toBe(200);
    const session = await cookie();
    const page = await ask("/console", { headers: { cookie: session } });
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    for (const script of SCRIPTS)
      expect((await ask(`/console/${script}`, { headers: { cookie: session } })).headers.get("content-type")).toBe(
        "text/javascript; charset=utf-8",
      );
    expect((await ask("/console/style.css")).status).toBe(200);
  });

  it("is told where the token is wrong, and has to wait after twenty tries", async () => {
    let last = await signIn("wrong");
    expect([last.status, await last.text()]).toEqual([401, expect.stringContaining("not the gateway token")]);
    for (let n = 0; n < 20; n++) last = await signIn("wrong");
    expect([last.status, last.headers.get("set-cookie")]).toEqual([429, null]);
    expect((await signIn(world.gateway.operatorToken)).status).toBe(303);
  });

  it("keeps the session in a cookie that scripts cannot read and other sites cannot send, never the token", async () => {
    const plain = (await signIn(world.gateway.operatorToken)).headers.get("set-cookie") ?? "";
    expect(plain).toMatch(/^rouse-console=[\w-]{40,}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/);
    expect(plain).not.toContain(world.gateway.operatorToken);
    const behindTls = await signIn(world.gateway.operatorToken, { "x-forwarded-proto": "https" });
    expect(behindTls.headers.get("set-cookie")).toMatch(/; Secure$/);
    expect((await signIn(world.gateway.operatorToken, { "sec-fetch-site": "cross-site" })).status).toBe(401);
  });

  it("until signing out", async () => {
    const session = await cookie();
    const out = await ask("/console/session/end", { method: "POST", headers: { cookie: session } });
    expect([out.status, out.headers.get("set-cookie")]).toEqual([303, expect.stringContaining("Max-Age=0")]);
    expect((await ask("/console", { headers: { cookie: session } })).status).toBe(401);
  });
});

describe("what a session may do", () => {
  it.each([
    ["from the page", { "x-rouse-console": "1", "sec-fetch-site": "same-origin" }, 200],
    ["without the page's header", {}, 401],
    ["from another site", { "x-rouse-console": "1", "sec-fetch-site": "cross-site" }, 401],
    ["from another origin", { "x-rouse-console": "1", origin: "http://evil.example" }, 401],
  ])("%s", async (_name, headers, status) => {
    const session = await cookie();
    expect((await ask("/admin/v1/status", { headers: { cookie: session, ...headers } })).status).toBe(status);
    expect((await ask("/admin/v1/reload", { method: "POST", headers: { cookie: session, ...headers } })).status).toBe(status);
    // Nothing but the operator's interface.
    expect((await ask("/metrics", { headers: { cookie: session, ...headers } })).status).toBe(401);
    expect((await ask("/hooks/wake", { method: "POST", headers: { cookie: session, ...headers } })).status).toBe(401);
  });
});

it("pages bring nothing from elsewhere and stand in no frame", async () => {
  for (const path of ["/console", "/docs"]) {
    const { headers } = await ask(path);
    const policy = headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:/);
    expect([headers.get("x-content-type-options"), headers.get("referrer-policy")]).toEqual(["nosniff", "no-referrer"]);
  }
  for (const name of ["page.html", "signin.html"]) {
    const text = readFileSync(join(FILES, name), "utf8");
    expect(text).not.toMatch(/https?:\/\/|<style|style=|onclick|<script>/);
  }
});

it("is where the operator's routes are", async () => {
  const own = await createWorld({ start: false, workers: false, config: { gateway: { adminPort: 0 } } });
  const { url, adminUrl } = await own.gateway.start();
  expect((await fetch(`${url}/console`)).status).toBe(404);
  expect((await fetch(`${adminUrl}/console`)).status).toBe(401);
  await own.stop();
});

/** The page's own code in a browser without a screen, against the real gateway. */
async function openPage(
  hash: string,
): Promise<{ window: Window; text: () => string; find: (words: string) => Promise<void>; close: () => Promise<void> }> {
  const window = new Window({ url: `${world.url}/console${hash}` });
  window.document.write(readFileSync(join(FILES, "page.html"), "utf8").replace(/<(?:script|link)[^>]*>(?:<\/script>)?/g, ""));
  const session = await cookie();
  const browse = (path: string, init: RequestInit = {}) =>
    realFetch(new URL(path, world.url), { ...init, headers: { ...(init.headers as Record<string, string>), cookie: session } });
  const globals = {
    document: window.document,
    location: window.location,
    Node: window.Node,
    fetch: browse,
    confirm: () => true,
    addEventListener: window.addEventListener.bind(window),
  };
  for (const [name, value] of Object.entries(globals)) vi.stubGlobal(name, value);
  const timer = vi.spyOn(globalThis, "setInterval").mockReturnValue(0 as never);
  vi.resetModules();
  await import(join(FILES, "app.js"));
  const text = (): string => window.document.body.textContent;
  return {
    window,
    text,
    find: (words) => vi.waitFor(() => expect(text()).toContain(words), { timeout: 5000 }),
    async close() {
      vi.unstubAllGlobals();
      timer.mockRestore();
      await window.happyDOM.close();
    },
  };
}

describe("the page", () => {
  it("shows at a glance how things are, and the config's problems", async () => {
    await world.post("/hooks/wake", { text: "x" });
    await world.post("/hooks/nowhere", {});
    world.write("rouse.json5", '{ hooks: { enabled: true, token: "test-hook-token-0123456789" }, nonsense: 1 }');
    await world.gateway.reload();
    const page = await openPage("");
    await page.find("Accepting, without workers");
    await page.find("nonsense");
    expect(page.text()).toContain("accepted1");
    expect(page.text()).toContain("unmatched1");
    expect(page.window.document.querySelectorAll("svg rect").length).toBe(48);
    await page.close();
  });

  it("lists events, opens one, shows what a hook said as text, and lets it come in again", async () => {
    const { body } = await world.post("/hooks/agent", { message: MARKUP, name: MARKUP, sessionKey: "hook:s" });
    await world.post("/hooks/nowhere", { a: 1 });
    const page = await openPage("#/events");
    await page.find("unmatched");
    expect(page.text()).toContain("no mapping or preset names this path");
    page.window.location.hash = `#/events/${body.eventId}`;
    page.window.dispatchEvent(new page.window.Event("hashchange"));
    await page.find(`Event ${body.eventId}`);
    expect(page.text()).toContain("onerror");
    expect(page.window.document.querySelectorAll("main img, main script")).toHaveLength(0);
    const button = [...page.window.document.querySelectorAll("button")].find((one) => one.textContent === "Replay");
    button?.click();
    await vi.waitFor(async () => expect((await world.admin("/admin/v1/events")).body.events).toHaveLength(3), { timeout: 5000 });
    page.window.location.hash = `#/runs/${body.runId}`;
    page.window.dispatchEvent(new page.window.Event("hashchange"));
    await page.find("What the agent was given");
    expect(page.window.document.querySelector("main mark")?.textContent).toBe(MARKUP);
    expect((globalThis as { broken?: unknown }).broken).toBeUndefined();
    await page.close();
  });

  it.each([
    ["#/runs", "hook:s"],
    ["#/sessions", "No session yet."],
    ["#/deliveries", "Nothing was delivered yet."],
    ["#/refusals", "no_token"],
    ["#/system", "Mappings"],
    ["#/sessions/main/main/main", "Waiting for a heartbeat"],
  ])("shows %s", async (hash, words) => {
    await world.post("/hooks/agent", { message: "x", sessionKey: "hook:s" });
    await world.post("/hooks/wake", { text: "remember the milk", mode: "next-heartbeat" });
    await ask("/hooks/wake", { method: "POST" });
    const page = await openPage(hash);
    await page.find(words);
    expect(page.window.document.getElementById("problem")?.textContent).toBe("");
    await page.close();
  });

  it("cancels a run that waits", async () => {
    const { body } = await world.post("/hooks/agent", { message: "x" });
    const page = await openPage(`#/runs/${body.runId}`);
    await page.find("Cancel");
    [...page.window.document.querySelectorAll("button")].find((one) => one.textContent === "Cancel")?.click();
    await vi.waitFor(async () => expect((await world.get(`/hooks/runs/${body.runId}`)).body.run.status).toBe("cancelled"), {
      timeout: 5000,
    });
    await page.close();
  });
});

describe("GET /docs", () => {
  it("shows every route of the document, its fields and an example", async () => {
    const answer = await ask("/docs");
    const page = await answer.text();
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/html; charset=UTF-8"]);
    const { paths } = (await (await ask("/openapi.json")).json()) as { paths: object };
    for (const path of Object.keys(paths)) expect(page).toContain(path);
    for (const words of ["sessionKey", "timeoutSeconds", "curl -sS -X POST", `${world.url}/hooks/agent`]) expect(page).toContain(words);
    expect(page).not.toMatch(/<script|style="/);
    expect((await ask("/docs/style.css")).headers.get("content-type")).toBe("text/css; charset=utf-8");
  });

  it("is not there with gateway.docs: false", async () => {
    const own = await createWorld({ start: false, workers: false, config: { gateway: { docs: false } } });
    expect((await own.get("/docs", {})).status).toBe(404);
    expect((await own.get("/docs/style.css", {})).status).toBe(404);
    await own.stop();
  });
});

it("/ is a page that links to the console, unless that is on a port of its own", async () => {
  for (const gateway of [{}, { adminPort: 0, docs: false }]) {
    const own = await createWorld({ start: false, workers: false, config: { gateway } });
    const { status, headers, body } = await own.get("/", {});
    expect([status, headers.get("content-type"), headers.get("x-content-type-options")]).toEqual([
      200,
      "text/html; charset=utf-8",
      "nosniff",
    ]);
    if ("adminPort" in gateway) expect(body).not.toContain("href");
    else expect(body).toMatch(/href="\/console"[^]*href="\/docs"/);
    await own.stop();
  }
});
