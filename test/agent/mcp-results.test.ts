import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { toToolOutput } from "../../src/agent/tools/mcp-client.ts";
import { createMcpWorld, type McpWorld } from "./mcp.ts";
import type { Said } from "./vendors.ts";

const text = (words: string) => ({ type: "text", text: words });
const image = { type: "image", data: "aGVsbG8=", mimeType: "image/png" };
const parts = (content: unknown, structuredContent?: unknown) =>
  toToolOutput({ content, structuredContent }).parts;

describe("a structured result", () => {
  it.each<[string, unknown[]]>([
    ["text", [text('{"a":1}')]],
    ["an image", [image]],
  ])("does not reach the model beside other content: %s", (_case, content) => {
    expect(parts(content, { a: 1 })).toEqual(parts(content));
  });

  it.each<[string, unknown]>([
    ["an empty list", []],
    ["none", undefined],
  ])("reaches the model as JSON if there is no other content: %s", (_case, content) => {
    expect(parts(content, { a: 1 })).toEqual([text('{"a":1}')]);
  });
});

describe("the servers of the MCP project", () => {
  const require = createRequire(import.meta.url);
  const program = (name: string): string =>
    require.resolve(`@modelcontextprotocol/server-${name}/dist/index.js`);
  let world: McpWorld | undefined;
  const dir = mkdtempSync(join(tmpdir(), "rouse-results-"));
  afterEach(() => world?.stop());
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  it("have each result reach the model once", async () => {
    writeFileSync(join(dir, "note.txt"), "The harbour opens at six.\nBring a rope.\n");
    const path = join(dir, "note.txt");
    const ann = { name: "Ann", entityType: "person", observations: ["ties knots"] };
    const calls: Said[] = [
      { tool: "files__read_text_file", input: { path } },
      { tool: "files__list_directory", input: { path: dir } },
      { tool: "memory__create_entities", input: { entities: [ann] } },
      { tool: "memory__read_graph", input: {} },
    ];
    world = await createMcpWorld(
      {
        files: { command: process.execPath, args: [program("filesystem"), dir] },
        memory: {
          command: process.execPath,
          args: [program("memory")],
          env: { MEMORY_FILE_PATH: join(dir, "memory.jsonl") },
        },
      },
      (call) => calls[call] ?? { text: "Done." },
    );
    expect(await world.run()).toMatchObject({ status: "succeeded", warnings: [] });
    const { messages = [] } = (world.model.requests.at(-1)?.body ?? {}) as {
      messages?: { role: string; content: string }[];
    };
    const results = messages.filter(({ role }) => role === "tool").map(({ content }) => content);
    const count = (words: string, from: string | undefined) => (from ?? "").split(words).length - 1;
    expect(
      results.map((result, index) =>
        count(["Bring a rope", "note.txt", "Ann", "Ann"][index] ?? "", result),
      ),
    ).toEqual([1, 1, 1, 1]);
  });
});
