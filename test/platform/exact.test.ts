import { readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { KEY, platformWorld, USER, type PlatformWorld } from "./world.ts";

interface ClientRequest {
  name: string;
  source: string;
  headers: Record<string, string>;
  body: { stream: boolean };
  answer?: string;
}
interface Fixture {
  sources: Record<string, string>;
  requests: ClientRequest[];
}

const read = (name: string): Fixture =>
  JSON.parse(readFileSync(join(import.meta.dirname, "../fixtures", name), "utf8")) as Fixture;
const coding = read("coding-clients.json");

/** Texts that programs parse, or that people read unchanged. */
const TEXTS = [
  '{"html":"<p>Hello</p>","image":"![a](relative.png)"}',
  "Use std::vector<int> and Map<K,V>, Promise<Array<T>>; a < b && c > d, x<y, <T>.",
  "<read_file>\n<path>src/a.ts</path>\n</read_file>",
  "<!-- x --><root xmlns:a='urn:a'><a:b c=\"1\"/><![CDATA[<d>]]><?pi e?></root>",
  "let all = vec![1, 2]; #![allow(x)] items![0].name; Great news![1]",
  "![data](data:image/png;base64,iVBORw0KGgo=) and ![relative](images/a.png)",
  "`<img src=https://x.example/a.png>`\n\n```html\n<img src='https://x.example/a.png'>\n```",
];

let world: PlatformWorld;
beforeAll(async () => {
  world = await platformWorld();
});
afterAll(() => world.close());

const say = (text: string): void => {
  world.model.says = () => ({ text: text.match(/[^]{1,7}/g) ?? [text] });
};
describe("what a program parses, and what has no image", () => {
  it.each(TEXTS)(
    "%j comes as the model wrote it, whole and streamed, as reasoning too",
    async (text) => {
      const pieces = text.match(/[^]{1,7}/g) ?? [];
      world.model.says = () => ({ text: pieces, reasoning: pieces });
      const { message } = (await world.chat()).body.choices[0];
      expect([message.content, message.reasoning_content]).toEqual([text, text]);
      expect((await world.chat({ stream: true })).content).toBe(text);
      expect((await world.respond()).content).toBe(text);
    },
  );

  const LIVE =
    '{"html":"<img src=\\"https://x.example/a.png\\">","md":"![a](https://x.example/b.png)"}';
  const TOOL = { type: "function", function: { name: "show", parameters: { type: "object" } } };
  const RESPONSES_TOOL = { type: "function", name: "show", parameters: { type: "object" } };
  const SCHEMA = { name: "page", schema: { type: "object" } };

  it.each<[string, object]>([
    ["response_format json_object", { response_format: { type: "json_object" } }],
    [
      "response_format json_schema",
      { response_format: { type: "json_schema", json_schema: SCHEMA } },
    ],
    ["tools", { tools: [TOOL] }],
  ])("with %s nothing is rewritten", async (_name, body) => {
    say(LIVE);
    expect((await world.chat(body)).content).toBe(LIVE);
    expect((await world.chat({ ...body, stream: true })).content).toBe(LIVE);
  });

  it.each<[string, object]>([
    ["text.format", { text: { format: { type: "json_schema", ...SCHEMA } } }],
    ["tools", { tools: [RESPONSES_TOOL] }],
  ])("nor with %s of a response, which can be read again", async (_name, body) => {
    say(LIVE);
    const made = await world.respond(body);
    expect(made.content).toBe(LIVE);
    const again = await (await world.ask(`/v1/responses/${made.body.id}`)).text();
    expect(JSON.parse(again).output[0].content[0].text).toBe(LIVE);
  });

  it.each<[string, object]>([
    ["response_format text", { response_format: { type: "text" } }],
    ["an empty list of tools", { tools: [] }],
  ])("%s is plain text", async (_name, body) => {
    say(LIVE);
    expect((await world.chat(body)).content).toBe(
      '{"html":"<img src=\\"https://x.example/a.png\\">","md":"! [a](https://x.example/b.png)"}',
    );
  });
});

describe("a key's `clean`", () => {
  const SAID =
    "![a](https://x.example/a.png) [b](https://other.example) <img src=https://x.example>";

  it("none leaves all as the model wrote it, images is the default", async () => {
    const own = await platformWorld({
      keys: [{ id: "code", key: "rk_code-0123456789", clean: "none" }],
      config: { hooks: { token: "hook-token-0123456789", allowedLinkHosts: ["ok.example"] } },
    });
    own.model.says = () => ({ text: [SAID] });
    const chat = async (key: string): Promise<string> => (await own.chat({}, { key })).content;
    expect(await chat("rk_code-0123456789")).toBe(SAID);
    expect(await chat(KEY)).not.toContain("other.example");
    const { body } = await own.admin("/admin/v1/keys", {
      method: "POST",
      body: JSON.stringify({ id: "made", clean: "none" }),
    });
    expect(body.key).toMatchObject({ clean: "none" });
    expect(await chat(body.secret)).toBe(SAID);
    const { keys } = (await own.admin("/admin/v1/keys")).body;
    expect(keys.map(({ id, clean }: { id: string; clean: string }) => [id, clean])).toEqual([
      ["web", "images"],
      ["other", "images"],
      ["code", "none"],
      ["made", "none"],
    ]);
    await own.close();
  });
});

describe("clients, as their sources build their requests", () => {
  it.each(coding.requests.map((request) => [request.name, request] as const))(
    "%s gets the model's text",
    async (_name, request) => {
      expect(coding.sources[request.source]).toMatch(/ at [0-9a-f]{40}/);
      const answer = request.answer ?? TEXTS.join("\n\n");
      say(answer);
      const { status, content } = await world.chat(request.body, request.headers);
      expect([status, content]).toEqual([200, answer]);
    },
  );
});

describe("requests below a base with too much", () => {
  it.each([
    ["POST", "/v1/v1/chat/completions", "/v1/chat/completions"],
    ["POST", "/v1/chat/completions/", "/v1/chat/completions"],
    ["GET", "/v1/models/", "/v1/models"],
    ["POST", "/v1/openai/responses", "/v1/responses"],
  ])("%s %s names the address that is meant", async (method, path, meant) => {
    const response = await world.ask(path, { method, ...(method === "POST" && { body: "{}" }) });
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect([response.status, error.code]).toEqual([404, "not_found"]);
    expect(error.message).toMatch(new RegExp(`${meant}$`));
  });
});

describe("requests below the base without /v1", () => {
  it.each([
    ["POST", "/chat/completions"],
    ["POST", "/responses"],
    ["GET", "/models"],
    ["GET", "/models/ops"],
    ["POST", "/completions"],
    ["POST", "/embeddings"],
    // As clients of Azure ask, and with a base address as other servers have it.
    ["POST", "/openai/deployments/ops/chat/completions"],
    ["POST", "/openai/v1/responses"],
    ["GET", "/api/v1/models"],
    ["POST", "/V1/chat/completions"],
  ])("%s %s says what to change, in the form of the API's errors", async (method, path) => {
    const response = await fetch(`${world.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
      ...(method === "POST" && { body: JSON.stringify({ model: "ops", messages: USER }) }),
    });
    expect(response.status).toBe(404);
    expect(response.headers.get("x-request-id")).toMatch(/^req_/);
    expect(await response.json()).toEqual({
      error: {
        type: "invalid_request_error",
        code: "not_found",
        param: null,
        message: expect.stringMatching(/below \/v1.*base address/),
      },
    });
    const client = new OpenAI({ baseURL: world.url, apiKey: KEY, maxRetries: 0 });
    await expect(client.models.list()).rejects.toThrow(/\/v1/);
  });
});
