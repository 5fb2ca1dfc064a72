import { afterEach, describe, expect, it } from "vitest";
import { platformWorld, type PlatformWorld } from "./world.ts";

let world: PlatformWorld;
afterEach(() => world?.close());

const PAGE = "https://chat.example.com";
const open = async (cors: object, more: object = {}) => {
  world = await platformWorld({ platform: { cors, ...more } });
};
const preflight = (origin: string, path = "/v1/chat/completions") =>
  world.ask(path, {
    method: "OPTIONS",
    key: "",
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization,content-type,x-session-id,x-stainless-lang",
    },
  });
const corsHeaders = ({ headers }: { headers: Headers }) =>
  Object.fromEntries([...headers].filter(([name]) => name.startsWith("access-control-")));
const EXPOSED = expect.stringMatching(/x-request-id,x-session-id,retry-after/);

describe("pages of origins that the config names", () => {
  it("may send requests, and read the answers and their headers", async () => {
    await open({ origins: ["https://Chat.example.com", "tauri://localhost"] });
    const asked = await preflight(PAGE);
    expect([asked.status, corsHeaders(asked), asked.headers.get("vary")]).toEqual([
      204,
      {
        "access-control-allow-origin": PAGE,
        "access-control-allow-methods": "GET,HEAD,POST,DELETE",
        "access-control-allow-headers": "authorization,content-type,x-session-id,x-stainless-lang",
        "access-control-max-age": "600",
        "access-control-expose-headers": EXPOSED,
      },
      "Origin, Access-Control-Request-Headers",
    ]);
    for (const stream of [false, true]) {
      const answer = await world.chat({ stream }, { origin: PAGE, "x-session-id": "s" });
      expect([answer.status, corsHeaders(answer), answer.headers.get("vary")]).toEqual([
        200,
        { "access-control-allow-origin": PAGE, "access-control-expose-headers": EXPOSED },
        "Origin",
      ]);
    }
    expect((await preflight("tauri://localhost")).status).toBe(204);
  });

  it("may read errors as well", async () => {
    await open({ origins: [PAGE] }, { maxBodyBytes: 1000 });
    const wrong = [
      await world.chat({}, { origin: PAGE, key: "" }),
      await world.chat({ n: 2 }, { origin: PAGE }),
      await world.call("/v1/nothing", {}, { origin: PAGE }),
      await world.chat(
        { messages: [{ role: "user", content: "x".repeat(2000) }] },
        { origin: PAGE },
      ),
    ];
    expect(
      wrong.map(({ status, headers }) => [status, headers.get("access-control-allow-origin")]),
    ).toEqual([401, 400, 404, 413].map((status) => [status, PAGE]));
  });

  it("may be sent cookies if the config says so, but not if every origin is named", async () => {
    await open({ origins: [PAGE], credentials: true });
    expect(corsHeaders(await preflight(PAGE))).toMatchObject({
      "access-control-allow-credentials": "true",
    });
    expect(corsHeaders(await world.chat({}, { origin: PAGE }))).toMatchObject({
      "access-control-allow-credentials": "true",
    });
    const config = { platform: { cors: { origins: ["*"], credentials: true } } };
    await expect(platformWorld({ config })).rejects.toThrow(/platform\.cors\.credentials/);
  });

  it("are all pages with *, which gives no cookies", async () => {
    await open({ origins: ["*"] });
    expect(corsHeaders(await world.chat({}, { origin: "https://any.example" }))).toEqual({
      "access-control-allow-origin": "*",
      "access-control-expose-headers": EXPOSED,
    });
    expect((await preflight("null")).status).toBe(204);
  });
});

describe("other pages", () => {
  it("have no access", async () => {
    await open({ origins: [PAGE] });
    for (const origin of [
      "https://evil.example",
      "https://chat.example.com.evil.example",
      "http://chat.example.com",
      "null",
    ]) {
      const asked = await preflight(origin);
      const answer = await world.chat({}, { origin });
      for (const { headers } of [asked, answer])
        expect(headers.get("access-control-allow-origin")).toBeNull();
    }
  });

  it("have none by default, and a preflight is a request without a key as ever", async () => {
    world = await platformWorld();
    expect((await preflight(PAGE)).status).toBe(401);
    const { headers } = await world.chat({}, { origin: PAGE });
    expect([corsHeaders({ headers }), headers.get("vary")]).toEqual([{}, null]);
  });

  it("and all other routes are as before", async () => {
    await open({ origins: [PAGE, "*"] });
    for (const path of ["/hooks/wake", "/admin/v1/runs", "/readyz", "/console"])
      expect(corsHeaders(await preflight(PAGE, path)), path).toEqual({});
    const hook = await world.post("/hooks/wake", { text: "x" });
    expect(hook.status).toBe(200);
  });
});

it.each(["chat.example.com", "https://chat.example.com/", "https://a.example, https://b.example"])(
  "platform.cors.origins: %s is no origin",
  async (origin) => {
    await expect(platformWorld({ platform: { cors: { origins: [origin] } } })).rejects.toThrow(
      /platform\.cors\.origins\[0\]/,
    );
  },
);
