import { request, type ClientRequest, type IncomingMessage } from "node:http";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { expectDocumented } from "../http/conformance.ts";
import { withEntry } from "../knowledge/world.ts";
import { DESK, documentsWorld, formOf, type DocumentsWorld } from "./documents.ts";

let world: DocumentsWorld;
beforeAll(async () => {
  world = await documentsWorld();
});
afterAll(() => world.close());

const BOUNDARY = "------------rouse-test-boundary";
const headOf = (name: string, field = "file"): string =>
  `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${field}"; filename="${name}"\r\nContent-Type: text/plain\r\n\r\n`;
const TAIL = `\r\n--${BOUNDARY}--\r\n`;
const MEGABYTE = Buffer.from(
  "All work and no play makes a long document. ".repeat(24_000),
).subarray(0, 1_000_000);

/** An upload whose bytes are written by hand, over a real socket. */
function open(
  to: DocumentsWorld,
  headers: Record<string, string> = {},
): { sent: ClientRequest; answer: Promise<IncomingMessage> } {
  const sent = request(`${to.url}/v1/knowledge/upload`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${DESK}`,
      "content-type": `multipart/form-data; boundary=${BOUNDARY}`,
      ...headers,
    },
  });
  const answer = new Promise<IncomingMessage>((resolve, reject) => {
    sent.on("response", resolve);
    sent.on("error", reject);
  });
  answer.catch(() => undefined);
  return { sent, answer };
}

async function read(
  answer: Promise<IncomingMessage>,
): Promise<{ status: number; code: string; param: unknown; type: string }> {
  const response = await answer;
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const body = JSON.parse(Buffer.concat(chunks).toString()) as {
    error: { code: string; param: unknown; type: string };
  };
  expectDocumented("POST", "/v1/knowledge/upload", response.statusCode ?? 0, body);
  const { code, param, type } = body.error;
  return { status: response.statusCode ?? 0, code, param, type };
}

/** Writes so many megabytes, never more than a socket takes; gives up where nobody takes them any more. */
async function pour(sent: ClientRequest, megabytes: number): Promise<void> {
  for (let n = 0; n < megabytes && !sent.destroyed; n++)
    if (!sent.write(MEGABYTE))
      await new Promise<void>((resolve) => {
        const go = (): void => {
          sent.off("drain", go).off("close", go);
          resolve();
        };
        sent.on("drain", go).on("close", go);
      });
}

async function nothingStaged(of: DocumentsWorld): Promise<void> {
  await of.until(async () => of.staged().length === 0);
  expect(
    readdirSync(join(of.dir, ".rouse")).includes("knowledge")
      ? readdirSync(join(of.dir, ".rouse/knowledge"))
      : [],
  ).toEqual([]);
}

describe("too large", () => {
  it("a file of more than 50 MB is 413, and nothing of it is kept; the connection has the answer", async () => {
    const before = process.memoryUsage().rss;
    const { sent, answer } = open(world);
    sent.write(headOf("large.txt"));
    await pour(sent, 60);
    sent.end(TAIL);
    expect(await read(answer)).toEqual({
      status: 413,
      code: "body_too_large",
      param: "file",
      type: "invalid_request_error",
    });
    await nothingStaged(world);
    expect(process.memoryUsage().rss - before).toBeLessThan(150e6);
  });

  it("a request of more than `requestMb` is 413, whether it says so or not", async () => {
    const small = await documentsWorld({ platform: { knowledge: { requestMb: 20 } } });
    const said = open(small, { "content-length": "21000000" });
    said.sent.write(headOf("a.txt"));
    void pour(said.sent, 20);
    const refused = { status: 413, code: "body_too_large", param: null };
    expect(await read(said.answer)).toMatchObject(refused);
    said.sent.destroy();
    const unsaid = open(small);
    for (const n of [1, 2, 3]) {
      unsaid.sent.write(`${n === 1 ? "" : "\r\n"}${headOf(`${n}.txt`)}`);
      await pour(unsaid.sent, 8);
    }
    unsaid.sent.end(TAIL);
    expect(await read(unsaid.answer)).toMatchObject(refused);
    await nothingStaged(small);
    await small.close();
  });

  it("more than 20 files are 413, and so is a field that has no end", async () => {
    const form = new FormData();
    for (let n = 0; n < 21; n++) form.append("file", new Blob([`text ${n}`]), `${n}.txt`);
    expect(await world.upload(form)).toMatchObject({
      status: 413,
      body: { error: { code: "too_many_files" } },
    });
    expect((await world.upload(formOf("a.txt", "x", { title: "x".repeat(70_000) }))).status).toBe(
      413,
    );
    await nothingStaged(world);
  });
});

describe("a form that is none", () => {
  it.each<[string, () => FormData, string | null]>([
    ["without a file", () => new FormData(), null],
    [
      "with fields alone",
      () => ((form) => (form.append("title", "x"), form))(new FormData()),
      "file",
    ],
    [
      "with the file in another field",
      () => ((form) => (form.append("document", new Blob(["x"]), "a.txt"), form))(new FormData()),
      "file",
    ],
    [
      "with the file as text",
      () => ((form) => (form.append("file", "The text."), form))(new FormData()),
      "file",
    ],
    ["with metadata that is no JSON", () => formOf("a.txt", "x", { metadata: "{" }), "metadata"],
    [
      "with metadata that is not flat",
      () => formOf("a.txt", "x", { metadata: '{"a":{"b":1}}' }),
      "metadata.a",
    ],
    [
      "with too much metadata",
      () =>
        formOf("a.txt", "x", {
          metadata: JSON.stringify(
            Object.fromEntries(Array.from({ length: 17 }, (_, n) => [n, n])),
          ),
        }),
      "metadata",
    ],
    [
      "with an agent that is not there",
      () => formOf("a.txt", "x", { agent_id: "nobody" }),
      "agent_id",
    ],
    [
      "with a word for on_duplicate that is none",
      () => formOf("a.txt", "x", { on_duplicate: "maybe" }),
      "on_duplicate",
    ],
    ["with a time to wait that is none", () => formOf("a.txt", "x", { wait: "long" }), "wait"],
    [
      "with one title for two files",
      () =>
        ((form) => (form.append("file", new Blob(["y"]), "b.txt"), form))(
          formOf("a.txt", "x", { title: "t" }),
        ),
      "title",
    ],
  ])("%s is 400", async (_what, form, param) => {
    const { status, body } = await world.upload(form());
    expect([status, body.error.type]).toEqual([400, "invalid_request_error"]);
    if (param !== null) expect(body.error.param).toBe(param);
    await nothingStaged(world);
  });

  it.each([
    ["no boundary", { "content-type": "multipart/form-data" }, headOf("a.txt") + TAIL],
    ["cut off before its end", {}, `${headOf("a.txt")}some text`],
    ["another boundary", {}, "--other\r\n\r\nx\r\n--other--\r\n"],
    ["nothing at all", {}, ""],
  ])("%s is 400", async (_what, headers, body) => {
    const { sent, answer } = open(world, headers);
    sent.end(body);
    expect(await read(answer)).toMatchObject({ status: 400, code: "invalid_body" });
    await nothingStaged(world);
  });

  it("a file in a transfer encoding is 400: its text would be that of the encoding", async () => {
    const { sent, answer } = open(world);
    const head = headOf("a.txt").replace(/\r\n$/, "Content-Transfer-Encoding: base64\r\n\r\n");
    sent.end(`${head}VGhlIHRleHQu${TAIL}`);
    expect(await read(answer)).toMatchObject({ status: 400, param: "file" });
    await nothingStaged(world);
  });

  it.each([
    [{ filename: "a.txt" }, 400, "text"],
    [{ text: "x" }, 400, "filename"],
    [{ filename: "", text: "x" }, 400, "filename"],
    [{ filename: "a.txt", content_base64: "a!" }, 400, "content_base64"],
    [{ filename: "a.txt", text: "x", content_base64: "eA==" }, 400, "content_base64"],
    [{ filename: "a.txt", text: "x", agent_ids: ["nobody"] }, 400, "agent_id"],
    [{ filename: "a.txt", text: "x".repeat(20_000_001) }, 413, null],
  ])("JSON %# is refused with the field", async (body, status, param) => {
    const answer = await world.call("/v1/knowledge/upload", body, { key: DESK });
    expect([answer.status, answer.body.error.param]).toEqual([status, param]);
    await nothingStaged(world);
  });

  it("another content type, another method and another address have the error object", async () => {
    const plain = await world.call("/v1/knowledge/upload", "x", {
      key: DESK,
      "content-type": "text/plain",
    });
    expect([plain.status, plain.body.error.code]).toEqual([415, "unsupported_media_type"]);
    expect(plain.body.error.message).toContain("multipart/form-data");
    expect((await world.call("/v1/knowledge/upload", "{", { key: DESK })).body.error.code).toBe(
      "invalid_json",
    );
    const wrong = await world.ask("/v1/knowledge/documents/x", { method: "PATCH", key: DESK });
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, HEAD, DELETE"]);
    expect((await world.get("nothing")).status).toBe(404);
  });
});

describe("a document that cannot be indexed", () => {
  const zeros = Buffer.alloc(40 * 2 ** 20);
  const cut = (content: Buffer): Buffer => content.subarray(0, Math.floor(content.length / 2));
  it.each<[string, string, () => string | Uint8Array | Promise<Uint8Array>, string]>([
    [
      "broken XML",
      "a.docx",
      () => withEntry("pandoc.docx", "word/document.xml", cut),
      "broken_document",
    ],
    [
      "a zip bomb",
      "a.docx",
      () => withEntry("pandoc.docx", "word/document.xml", () => zeros),
      "too_large",
    ],
  ])("%s fails with a code, and leaves no passages", async (what, name, content, code) => {
    const { status, body } = await world.index(name, await content(), { external_id: what });
    expect([status, body.status, body.error.code, body.chunk_count]).toEqual([
      200,
      "failed",
      code,
      0,
    ]);
    expect((await world.del(`documents/${body.id}`)).status).toBe(200);
    await nothingStaged(world);
  });
});

describe("an upload that stops on the way", () => {
  it("leaves nothing behind when the client hangs up", async () => {
    const { sent } = open(world);
    sent.write(headOf("a.txt"));
    await pour(sent, 2);
    await world.until(async () => world.staged().length === 1);
    sent.destroy();
    await nothingStaged(world);
    expect((await world.get("documents")).body.data).toEqual([]);
  });

  it("is 408 after a time without a byte, and gives its place away", async () => {
    const slow = await documentsWorld({
      config: { hooks: { bodyTimeoutSeconds: 0.3 } },
      platform: {},
    });
    const { sent, answer } = open(slow);
    sent.write(headOf("a.txt"));
    expect(await read(answer)).toMatchObject({ status: 408, code: "body_timeout" });
    sent.destroy();
    await nothingStaged(slow);
    await slow.close();
  });

  it("beside two others waits, and is taken once one has ended; one whose client hangs up gives its place away", async () => {
    const busy = [open(world), open(world)];
    for (const { sent } of busy) sent.write(headOf("a.txt") + "The first words.".repeat(10_000));
    await world.until(async () => world.staged().length === 2);
    const gone = open(world);
    gone.sent.write(headOf("b.txt") + "Never read.");
    let isOver = false;
    const third = world.upload(formOf("c.txt", "The third.")).finally(() => (isOver = true));
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect([isOver, world.staged().length]).toEqual([false, 2]);
    gone.sent.destroy();
    for (const { sent } of busy) sent.destroy();
    expect((await third).status).toBe(202);
    await world.until(async () => (await world.get("documents")).body.data[0]?.status === "ready");
    expect(world.staged()).toEqual([]);
  });

  it("is 503 with a time to wait behind a hundred others", async () => {
    // However long it takes until all are there, none of them is given up meanwhile.
    const full = await documentsWorld({
      config: { hooks: { bodyTimeoutSeconds: 600 } },
      platform: {},
    });
    const busy = Array.from({ length: 102 }, () => open(full));
    for (const { sent } of busy) sent.write(headOf("a.txt") + "The first words.");
    await full.until(async () => full.staged().length === 2);
    // One that comes before all of them are there waits as they do.
    const last = await full.until(async () => {
      const init = {
        method: "POST",
        headers: { authorization: `Bearer ${DESK}` },
        body: formOf("c.txt", "The last."),
      };
      const signal = AbortSignal.timeout(5000);
      return fetch(`${full.url}/v1/knowledge/upload`, { ...init, signal }).catch(() => undefined);
    });
    const { error } = (await last.json()) as { error: { code: string } };
    expect([last.status, error.code, last.headers.get("retry-after")]).toEqual([
      503,
      "overloaded",
      "2",
    ]);
    for (const { sent } of busy) sent.destroy();
    await full.until(async () => full.staged().length === 0);
    await full.close();
  });
});
