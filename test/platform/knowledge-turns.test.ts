import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { createProvider, modelConfig } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { DESK, documentsWorld, expectLimitedPassages, type DocumentsWorld } from "./documents.ts";

/** A channel whose messages come by HTTP and whose replies go into a file. */
const ROOM = `
import { appendFile } from "node:fs/promises";
import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "room",
  config: z.strictObject({ file: z.string(), allowFrom: z.array(z.string()) }),
  channel: ({ config }) => ({
    defaultTo: "owner",
    send: async ({ text }) => {
      await appendFile(config.file, JSON.stringify(text) + "\\n");
      return { status: "sent" };
    },
    async request(request, host) {
      await host.receive({ id: request.url, from: "ann", to: "ann", direct: true, parts: [{ kind: "own", text: await request.text() }] });
      return new Response(null, { status: 204 });
    },
  }),
});`;

const QUESTION = "How long are returns taken?";
/** The passages and what they were looked up for, in this order, with nothing of the passages outside the boundary. */
const WITH_PASSAGES =
  /^Passages [^<]*\[1\]\s*<<<EXTERNAL_CONTENT ([0-9a-f]{32})>>>[^<]*terms\.md[^<]*Returns are taken within 30 days[^<]*<<<END_EXTERNAL_CONTENT \1>>>[^]*How long are returns taken\?/;

let world: DocumentsWorld;
let folder: string;
let delivered: () => string[];

/** Adds a document as `rouse knowledge add` does. */
async function addDocument(
  of: Pick<World, "admin">,
  filename: string,
  text: string,
  agents: readonly string[] = [],
): Promise<void> {
  const query = new URLSearchParams({ filename });
  for (const agent of agents) query.append("agent", agent);
  const { body } = await of.admin(`/admin/v1/knowledge/documents?${query.toString()}`, {
    method: "POST",
    body: text,
  });
  const indexed = await of.admin(`/admin/v1/knowledge/documents/${body.document.id}?wait=25`);
  expect(indexed.body.document.status).toBe("ready");
}

const run = (body: object): Promise<{ reply: string; status: string; warnings: string[] }> =>
  world.hookRun({ message: QUESTION, ...body });

const asked = (call = 0): string => {
  const { content } = world.model.asked[call]?.body.messages.at(-1) ?? {};
  return typeof content === "string" ? content : JSON.stringify(content);
};
const tools = (): string[] | undefined => world.model.asked[0]?.tools;

describe("an agent's documents in turns that no API key begins", () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "rouse-room-"));
    const file = join(folder, "replies");
    // The last line may be half written.
    const lines = (): string[] =>
      existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : [];
    delivered = () => lines().map((line) => JSON.parse(line) as string);
    world = await documentsWorld({
      agents: [
        { id: "ops", knowledge: "auto" },
        { id: "sales" },
        { id: "legal", knowledge: "off" },
      ],
      files: { "plugins/room.ts": ROOM },
      config: { channels: { room: { file, allowFrom: ["ann"] } } },
    });
    await addDocument(world, "terms.md", "# Returns\n\nReturns are taken within 30 days.", [
      "ops",
      "sales",
      "legal",
    ]);
    await addDocument(world, "secret.md", "The returns desk has the code 4711.", ["legal"]);
    await world.index(
      "tenant.md",
      "Returns of the tenant shop are taken within 99 days.",
      {},
      DESK,
    );
  });
  afterAll(async () => {
    await world.close();
    rmSync(folder, { recursive: true, force: true });
  });
  beforeEach(() => {
    world.model.asked.length = 0;
    world.model.says = () => ({ text: ["Within 30 days [1]."] });
  });

  it("a turn is not filled with passages of one document", () => expectLimitedPassages(world));

  it("a hook run is given passages of the operator's documents for this agent, and of no other's", async () => {
    expect(await run({ agentId: "ops" })).toMatchObject({
      status: "succeeded",
      reply: "Within 30 days [1].",
      warnings: [],
    });
    expect(asked()).toMatch(WITH_PASSAGES);
    expect(asked()).toMatch(
      /<<<END_EXTERNAL_CONTENT [^]*An event arrived through hook "agent"[^]*<<<EXTERNAL_CONTENT/,
    );
    expect(world.model.asked[0]?.text).not.toMatch(/4711|99 days/);
  });

  it("a hook run has the search without hooks.tools, and what it finds is outside text", async () => {
    const search = {
      id: "call_1",
      name: "knowledge_search",
      arguments: JSON.stringify({ query: "returns days code" }),
    };
    world.model.says = (_asked, call) =>
      call === 0 ? { calls: [search] } : { text: ["30 days [1]."] };
    expect(await run({ agentId: "sales" })).toMatchObject({
      status: "succeeded",
      reply: "30 days [1].",
    });
    expect([tools(), asked()]).toEqual([
      ["knowledge_search"],
      expect.stringMatching(/^An event arrived/),
    ]);
    const result = world.model.asked[1]?.body.messages.find(
      ({ role }: { role: string }) => role === "tool",
    ).content;
    expect(result).toMatch(
      /^<<<EXTERNAL_CONTENT [0-9a-f]{32}>>>[^]*\[1\] document terms\.md \(doc_\w+#0\)\n[^]*30 days/,
    );
    expect(result).not.toMatch(/4711|99 days/);
  });

  it("an agent with `knowledge: off` has neither", async () => {
    await run({ agentId: "legal" });
    expect([tools(), asked()]).toEqual([[], expect.stringMatching(/^An event arrived/)]);
  });

  it("a delivered reply names the documents that it cites, the receipt has it as it was", async () => {
    const before = delivered().length;
    expect(await run({ agentId: "ops", deliver: true, channel: "room" })).toMatchObject({
      reply: "Within 30 days [1].",
    });
    expect(await world.until(async () => delivered()[before])).toBe(
      "Within 30 days [1].\n\n[1] terms.md",
    );
    world.model.says = () => ({ text: ["I do not know [7]."] });
    await run({ agentId: "ops", deliver: true, channel: "room" });
    expect(await world.until(async () => delivered()[before + 1])).toBe("I do not know [7].");
  });

  it("a message on a channel is answered by them", async () => {
    const before = delivered().length;
    const response = await world.gateway.fetch(
      new Request("http://127.0.0.1/channels/room/1", { method: "POST", body: QUESTION }),
    );
    expect(response.status).toBe(204);
    const reply = await world.until(async () => delivered()[before]);
    expect([reply, asked()]).toEqual([
      "Within 30 days [1].\n\n[1] terms.md",
      expect.stringMatching(WITH_PASSAGES),
    ]);
    // And so is one that goes on with it.
    await world.gateway.fetch(
      new Request("http://127.0.0.1/channels/room/2", { method: "POST", body: "And until when?" }),
    );
    await world.until(async () => delivered()[before + 1]);
    expect(asked(1)).toContain("Returns are taken within 30 days");
  });

  it("a heartbeat looks its system events up", async () => {
    await world.post("/hooks/wake", { text: QUESTION });
    await world.until(async () => world.model.asked.length > 0);
    expect(asked()).toMatch(WITH_PASSAGES);
    expect(asked()).toContain("System events since the last heartbeat");
  });
});

it("a heartbeat without system events has the search, and no passages for nothing", async () => {
  const provider = await createProvider();
  const heartbeat = { every: 0, instructions: "Look." };
  const { models } = modelConfig(provider) as { models: object };
  const agents = {
    defaults: { model: "local/big", heartbeat },
    list: [{ id: "a", knowledge: "auto" }],
  };
  let own = await createWorld({ config: { models, agents } });
  onTestFinished(async () => {
    await own.stop();
    await provider.close();
  });
  await addDocument(own, "queue.md", "Nothing has been queued since the last heartbeat.");
  await own.gateway.stop();
  own = await createWorld({
    dir: own.dir,
    config: {
      models,
      agents: {
        ...agents,
        defaults: { ...agents.defaults, heartbeat: { ...heartbeat, every: "50ms" } },
      },
    },
  });
  const request = await own.until(async () => provider.requests[0]);
  expect(request.body.tools?.map((tool) => tool.function.name)).toEqual(["knowledge_search"]);
  expect(request.body.messages.at(-1)?.content).toBe(
    "Nothing has been queued since the last heartbeat.",
  );
});

describe("a gateway without documents of the operator", () => {
  it("opens nothing for a hook run", async () => {
    const own = await createWorld();
    onTestFinished(() => own.stop());
    const { body } = await own.post(
      "/hooks/agent",
      { message: QUESTION, deliver: false },
      { prefer: "wait=20" },
    );
    expect([body.status, existsSync(join(own.dir, ".rouse/knowledge.db"))]).toEqual([
      "succeeded",
      false,
    ]);
  });
});
