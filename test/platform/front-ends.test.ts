import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { gate } from "./model.ts";
import { platformWorld, type PlatformWorld } from "./world.ts";

interface FrontEndRequest {
  name: string;
  source: string;
  headers: Record<string, string>;
  body: { stream: boolean; messages: { role: string; content: unknown }[] };
}

const FILE = join(import.meta.dirname, "../fixtures/front-ends.json");
const { requests, sources } = JSON.parse(readFileSync(FILE, "utf8")) as {
  requests: FrontEndRequest[];
  sources: Record<string, string>;
};

let world: PlatformWorld;
beforeAll(async () => {
  world = await platformWorld();
});
afterAll(() => world.close());
beforeEach(() => world.model.reset((_asked, call) => ({ text: [`answer ${call}`] })));

const send = ({ headers, body }: FrontEndRequest) => world.chat(body, headers);
const getText = (content: unknown): unknown => (Array.isArray(content) ? content[0].text : content);
const sessions = async (): Promise<unknown[]> =>
  (await world.admin("/admin/v1/sessions?origin=api")).body.sessions;

describe("requests of front ends, as their sources build them", () => {
  it.each(requests.map((request) => [request.name, request] as const))(
    "%s is answered from itself alone",
    async (_name, request) => {
      expect(sources[request.source]).toMatch(/ at [0-9a-f]{40}/);
      // A conversation of the same chat is under way in Rouse, and one was before.
      const chat =
        request.headers["X-OpenWebUI-Chat-Id"] ?? request.headers["x-conversation-id"] ?? "";
      await world.chat(
        { messages: [{ role: "user", content: "EARLIER" }] },
        { "x-session-id": chat },
      );
      const before = await sessions();
      const { status, headers, content: said } = await send(request);
      expect([status, headers.get("x-session-id"), said]).toEqual([200, null, "answer 1"]);
      const asked = world.model.asked[1]?.body.messages.filter(
        ({ role }: { role: string }) => role !== "system",
      );
      const own = request.body.messages.filter(({ role }) => role !== "system");
      expect(
        asked.map(({ role, content }: { role: string; content: unknown }) => [
          role,
          getText(content),
        ]),
      ).toEqual(own.map(({ role, content }) => [role, getText(content)]));
      // Nothing of it joins the session, and no session is made.
      expect(await sessions()).toEqual(before);
    },
  );

  it("all of one chat, one after the other, leave no session behind", async () => {
    const before = await sessions();
    for (const request of requests) expect((await send(request)).status).toBe(200);
    expect(world.model.asked).toHaveLength(requests.length);
    expect(await sessions()).toEqual(before);
  });

  it.each(
    requests.filter(({ body }) => body.stream).map((request) => [request.name, request] as const),
  )("%s can be stopped: the provider's call ends", async (_name, { headers, body }) => {
    const held = gate();
    world.model.says = () => ({
      text: ["one", "two"],
      wait: (piece) => (piece === 0 ? Promise.resolve() : held.passed),
    });
    const abort = new AbortController();
    const response = await world.ask("/v1/chat/completions", {
      method: "POST",
      headers,
      body: JSON.stringify(body),
      signal: abort.signal,
    });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    abort.abort();
    await world.until(async () => world.model.asked[0]?.gone.aborted);
    held.open();
    // Nothing is tried again.
    expect(world.model.asked).toHaveLength(1);
  });

  it("a session that is named hands over the history, whatever the front end adds", async () => {
    const [first] = requests as [FrontEndRequest];
    const named = { ...first, headers: { ...first.headers, "x-session-id": "s" } };
    await send(named);
    await send(named);
    expect(world.model.asked[1]?.roles).toEqual(["system", "user", "assistant", "user"]);
  });
});
