import { afterEach, describe, expect, it } from "vitest";
import {
  startVendor,
  VENDORS,
  type ModelRequest,
  type ModelServer,
  type Vendor,
} from "../agent/vendors.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { dataUri, imageMessage, png } from "./images.ts";
import { KEY } from "./world.ts";

let world: World;
let server: ModelServer;
afterEach(async () => {
  await world.stop();
  await server.close();
});

async function start(vendor: Vendor): Promise<void> {
  server = await startVendor(vendor);
  world = await createWorld({
    config: {
      models: {
        providers: {
          local: { type: vendor.type, baseUrl: server.baseUrl, apiKey: "k-0123456789" },
        },
      },
      agents: {
        defaults: { model: "local/big", heartbeat: { every: 0 } },
        list: [{ id: "ops", instructions: "OWN" }],
      },
      platform: { apiKeys: [{ id: "web", key: KEY }] },
    },
  });
}
const chat = (body: object) =>
  world.post("/v1/chat/completions", { model: "ops", ...body }, { authorization: `Bearer ${KEY}` });

const tools = [
  {
    type: "function",
    function: {
      name: "clock",
      parameters: { type: "object", properties: { zone: { type: "string" } } },
    },
  },
];
const user = { role: "user", content: "Time?" };

describe.each(VENDORS.map((vendor) => [vendor.type, vendor] as const))(
  "a provider of type %s",
  (_type, vendor) => {
    it("gets no answer without words, which some reject", async () => {
      await start(vendor);
      server.handler = () => ({ text: "Noon." });
      const said = ["", []].map((content) => ({ role: "assistant", content }));
      expect((await chat({ messages: [user, ...said, user] })).status).toBe(200);
      const turns = vendor.turns(server.requests[0] as ModelRequest);
      expect([...new Set(turns.map(({ role }) => role))]).toEqual(["user"]);
    });

    it("gets images, and continues a session after a call without a result", async () => {
      await start(vendor);
      server.handler = () => ({ tool: "clock", input: {} });
      const messages = imageMessage(dataUri(png(4, 4)), "low");
      expect((await chat({ messages, tools, session_id: "s" })).status).toBe(200);
      const asked = JSON.stringify(server.requests[0]?.body);
      expect(asked).toContain(png(4, 4).toString("base64"));
      expect(asked.includes('"detail":"low"')).toBe(vendor.type.startsWith("openai"));
      server.handler = () => ({ text: "Well." });
      expect(
        (await chat({ messages: [user], session_id: "s" })).body.choices[0].message.content,
      ).toBe("Well.");
      expect(JSON.stringify(server.requests[1]?.body)).toContain("[image image/png]");
      expect(JSON.stringify(server.requests[1]?.body)).not.toContain("clock");
    });
  },
);

const SIGNATURE = "U0lHTkVE";
/** Signs an answer that calls a tool, as a vendor does that refuses to go on without its signature. */
// oxlint-disable-next-line typescript/no-explicit-any -- each vendor's answer has a shape of its own
const SIGN: Partial<Record<Vendor["type"], (answer: any) => void>> = {
  anthropic: ({ content }) =>
    content.unshift({ type: "thinking", thinking: "Hm.", signature: SIGNATURE }),
  google: ({ candidates: [{ content }] }) => {
    content.parts[0].thoughtSignature = SIGNATURE;
  },
};

it.each(VENDORS.filter(({ type }) => type in SIGN).map((vendor) => [vendor.type, vendor] as const))(
  "a provider of type %s gets what it signed, though the caller does not have it",
  async (type, vendor) => {
    await start(vendor);
    server.handler = (_request, response) => {
      const answer = vendor.answer({ tool: "clock", input: { zone: "UTC" } }, "big");
      SIGN[type]?.(answer);
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(answer));
      return undefined;
    };
    const { message } = (await chat({ messages: [user], tools })).body.choices[0];
    server.handler = () => ({ text: "Noon." });
    const [call] = message.tool_calls;
    const said = { role: "assistant", content: null, tool_calls: [call] };
    const result = { role: "tool", tool_call_id: call.id, content: "12:00" };
    const next = await chat({ messages: [user, said, result], tools });
    expect(next.body.choices[0].message.content).toBe("Noon.");
    expect(JSON.stringify(server.requests[1]?.body)).toContain(SIGNATURE);
  },
);
