import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, it } from "vitest";
import { startProgram, type Program } from "../e2e/program.ts";
import { DESK, formOf } from "./documents.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const NODE = resolve(ROOT, "node_modules/.bin/node");
const BIG = 8_000;

let dir: string;
let program: Program | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-upload-crash-"));
  writeFileSync(
    join(dir, "rouse.json5"),
    JSON.stringify({
      gateway: { port: 0 },
      platform: {
        apiKeys: [{ id: "desk", key: DESK, scopes: ["chat", "knowledge:read", "knowledge:write"] }],
      },
    }),
  );
});
afterEach(async () => {
  await program?.kill();
  rmSync(dir, { recursive: true, force: true });
});

const start = async (): Promise<Program> => {
  program = await startProgram(NODE, [join(ROOT, "bin/rouse.js"), "start"], { cwd: dir });
  return program;
};
const files = (folder: string): string[] => {
  try {
    return readdirSync(join(dir, ".rouse", folder));
  } catch {
    return [];
  }
};
const headers = { authorization: `Bearer ${DESK}` };
const until = async (holds: () => boolean | Promise<boolean>): Promise<void> => {
  for (let n = 0; n < 1500; n++) {
    if (await holds()) return;
    await new Promise((done) => setTimeout(done, 10));
  }
  throw new Error("what was waited for did not come");
};

it("a kill leaves nothing of an upload after the next start, and a document that was being indexed is read anew and found once", async () => {
  const { url, kill } = await start();
  const sent = request(`${url}/v1/knowledge/upload`, {
    method: "POST",
    headers: { ...headers, "content-type": "multipart/form-data; boundary=bb" },
  });
  sent.on("error", () => undefined);
  sent.write(
    `--bb\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n${"x".repeat(2_000_000)}`,
  );
  const isUploading = (): boolean => files("tmp").some((name) => name.startsWith("upload-"));
  await until(isUploading);
  const text = Array.from(
    { length: BIG },
    (_, n) => `Sentence ${n} tells of the walrus and of what it does all day long.`,
  ).join(" ");
  const response = await fetch(`${url}/v1/knowledge/upload`, {
    method: "POST",
    headers,
    body: formOf("a.txt", text),
  });
  expect(response.status).toBe(202);
  const { id } = (await response.json()) as { id: string };
  await until(() => files("tmp").some((name) => name.startsWith("chunks-")));
  await kill();
  expect(isUploading()).toBe(true);
  const db = new DatabaseSync(join(dir, ".rouse/knowledge.db"));
  expect(
    (db.prepare("SELECT status FROM knowledge_documents").get() as { status: string }).status,
  ).not.toBe("ready");
  db.close();
  const again = await start();
  expect(isUploading()).toBe(false);
  let document: { status: string; chunk_count: number } = { status: "", chunk_count: 0 };
  await until(async () => {
    document = (await (
      await fetch(`${again.url}/v1/knowledge/documents/${id}`, { headers })
    ).json()) as typeof document;
    return document.status === "ready";
  });
  const found = await fetch(`${again.url}/v1/knowledge/search`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ query: "walrus", limit: 100 }),
  });
  // Not twice: neither what the killed process has indexed, nor the rest.
  expect(((await found.json()) as { data: unknown[] }).data).toHaveLength(
    Math.min(100, document.chunk_count),
  );
  expect(document.chunk_count).toBeGreaterThan(50);
  const after = new DatabaseSync(join(dir, ".rouse/knowledge.db"), { readOnly: true });
  expect(
    (after.prepare("SELECT count(*) AS n FROM knowledge_passages").get() as { n: number }).n,
  ).toBe(document.chunk_count);
  expect(after.prepare("SELECT sha256 FROM knowledge_files").all()).toEqual([
    { sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
  ]);
  after.close();
  expect(files("tmp")).toEqual([]);
});
