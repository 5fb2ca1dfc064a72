import { describe, expect, it } from "vitest";
import { toToolOutput } from "../../src/agent/tools/mcp-client.ts";
import { gif } from "../platform/images.ts";

const text = (words: string) => ({ type: "text", text: words });
const image = { type: "image", data: "aGVsbG8=", mimeType: "image/png" };
const parts = (content: unknown, structuredContent?: unknown) =>
  toToolOutput({ content, structuredContent }).parts;

describe("a structured result", () => {
  const graph = { entities: [{ name: "Ann", of: ["x"] }], relations: [] };
  it.each<[string, unknown[], unknown]>([
    ["the same JSON", [text(JSON.stringify(graph))], graph],
    ["JSON with other spaces", [text(JSON.stringify(graph, null, 2))], graph],
    [
      "JSON in another order",
      [text('{ "relations": [], "entities": [{ "of": ["x"], "name": "Ann" }] }')],
      graph,
    ],
    ["a text in a field", [text("line 1\nline 2\n")], { content: "line 1\nline 2\n" }],
    ["a text without the last line break", [text("line 1\n")], { result: "line 1" }],
    ["a text in pieces", [text("a"), text("b")], { content: "a\nb" }],
    ["a list in a field", [text(JSON.stringify(graph.entities, null, 2))], graph.entities],
    ["a list in a field, wrapped", [text('[{"id":1}]')], { entities: [{ id: 1 }] }],
    [
      "a long list in a field",
      [text(JSON.stringify(Array.from({ length: 1000 }, (_, id) => ({ id, name: `No. ${id}` }))))],
      { result: Array.from({ length: 1000 }, (_, id) => ({ id, name: `No. ${id}` })) },
    ],
    ["a number in a field", [text("8")], { result: 8 }],
    ["one item an entry", [text('{"id":1}'), text("two")], { result: [{ id: 1 }, "two"] }],
    ["the content itself", [image], { content: [image] }],
    ["the text beside an image", [image, text('{"a":1}')], { a: 1 }],
  ])("that says what the content says reaches the model once: %s", (_case, content, value) => {
    expect(parts(content, value)).toEqual(parts(content));
  });

  it.each<[string, unknown[], unknown]>([
    ["another value", [text('{"a":1}')], { a: 2 }],
    ["one field more", [text("Deleted.")], { success: true, message: "Deleted." }],
    ["fewer entries", [text('{"id":1}')], { result: [{ id: 1 }, { id: 2 }] }],
    ["a summary", [text("3 files")], { content: "a\nb\nc" }],
    ["an empty list", [], { result: [] }],
    ["no content", [], { a: 1 }],
    ["another image", [image], { content: [{ ...image, data: "AAAA" }] }],
    ["a word of another one", [text("booking")], { status: "ok" }],
  ])("that differs from the content reaches the model, too: %s", (_case, content, value) => {
    expect(parts(content, value)).toEqual([...parts(content), text(JSON.stringify(value))]);
  });
});

describe("a result", () => {
  const seen = gif(4, 4).toString("base64");
  const shown = { type: "file", mediaType: "image/gif", data: seen };
  const named = (type: string, bytes: number) =>
    text(`[a file, ${type}, ${bytes} bytes: no PNG, JPEG, GIF or WebP image]`);
  it.each<[string, unknown, unknown[]]>([
    ["an image under the name of another kind", [{ ...image, data: seen }], [shown]],
    ["an image as an address", [{ ...image, data: `data:image/png;base64,${seen}` }], [shown]],
    ["an image that is none", [image], [named("image/png", 6)]],
    ["an empty image", [{ ...image, data: "" }], [named("image/png", 0)]],
    ["a drawing", [{ ...image, mimeType: "image/svg+xml" }], [named("image/svg+xml", 6)]],
    [
      "a long screenshot",
      [{ ...image, data: gif(4, 8001).toString("base64") }],
      [text("[a file, image/gif, 42 bytes: a side has more than 8000 pixels]")],
    ],
    ["a text as content", "fine", [text("fine")]],
    ["one part as content", text("fine"), [text("fine")]],
    ["texts as parts", ["fi", "ne"], [text("fi"), text("ne")]],
    ["no content", null, []],
  ])("with %s is read", (_case, content, wanted) => {
    expect(parts(content, null)).toEqual(wanted);
  });
});
