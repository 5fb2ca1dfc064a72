import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { expect } from "vitest";
import { FIXTURES } from "../knowledge/world.ts";
import { platformWorld, readAnswer, type Called, type PlatformWorld } from "./world.ts";

export const DESK = "rk_desk-key-0123456789-0123456789";
export const SALES = "rk_sales-key-0123456789-0123456789";
export const READER = "rk_reader-key-0123456789-0123456789";
export const STRANGER = "rk_stranger-key-0123456789-0123456789";

export interface DocumentsWorld extends Omit<PlatformWorld, "get"> {
  /** Uploads a form; the document's key unless another is named. */
  upload(form: FormData, key?: string): Promise<Called>;
  /** Uploads one file and waits for the end of its indexing. */
  index(
    name: string,
    content: string | Uint8Array,
    fields?: Record<string, string | string[]>,
    key?: string,
  ): Promise<Called>;
  fixture(name: string, fields?: Record<string, string>): Promise<Called>;
  search(query: string, more?: object, key?: string): Promise<string[]>;
  get(path: string, key?: string): Promise<Called>;
  del(path: string, key?: string): Promise<Called>;
  /** The files that are still in the folder of uploads. */
  staged(): string[];
}

export function formOf(
  name: string,
  content: string | Uint8Array,
  fields: Record<string, string | string[]> = {},
): FormData {
  const form = new FormData();
  for (const [field, value] of Object.entries(fields))
    for (const one of [value].flat()) form.append(field, one);
  form.append("file", new Blob([content]), name);
  return form;
}

type Options = NonNullable<Parameters<typeof platformWorld>[0]>;

const ALL = ["chat", "agents:read", "knowledge:read", "knowledge:write"];

/**
 * A gateway with keys for documents: `desk`, `sales` (one agent alone) and `reader` share the tenant `shop`; `stranger`
 * has one of its own.
 */
export async function documentsWorld(options: Options = {}): Promise<DocumentsWorld> {
  const world = await platformWorld({
    ...options,
    keys: [
      { id: "desk", key: DESK, tenant: "shop", scopes: ALL },
      { id: "sales", key: SALES, tenant: "shop", agents: ["sales"], scopes: ALL },
      { id: "reader", key: READER, tenant: "shop", scopes: ["knowledge:read"] },
      { id: "stranger", key: STRANGER, scopes: ALL },
      ...(options.keys ?? []),
    ],
  });
  const ask = async (path: string, init: RequestInit, key: string): Promise<Called> =>
    readAnswer(await world.ask(path, { ...init, key }));
  const upload: DocumentsWorld["upload"] = (form, key = DESK) =>
    ask("/v1/knowledge/upload", { method: "POST", body: form }, key);
  const index: DocumentsWorld["index"] = (name, content, fields = {}, key = DESK) =>
    upload(formOf(name, content, { wait: "25", ...fields }), key);
  return {
    ...world,
    upload,
    index,
    fixture: async (name, fields) =>
      index(basename(name), await readFile(join(FIXTURES, name)), fields),
    async search(query, more = {}, key = DESK) {
      const { status, body } = await ask(
        "/v1/knowledge/search",
        { method: "POST", body: JSON.stringify({ query, ...more }) },
        key,
      );
      if (status !== 200) throw new Error(`search answered ${status}`);
      return body.data.map(({ text }: { text: string }) => text);
    },
    get: (path, key = DESK) => ask(`/v1/knowledge/${path}`, {}, key),
    del: (path, key = DESK) => ask(`/v1/knowledge/${path}`, { method: "DELETE" }, key),
    staged() {
      try {
        return readdirSync(join(world.dir, ".rouse/tmp")).filter((name) =>
          name.startsWith("upload-"),
        );
      } catch {
        return [];
      }
    },
  };
}

/**
 * A key for some agents cannot replace, lock, or read anything of a document that is not its own: neither by an external
 * id nor by equal bytes. `word` makes a word that no other document has.
 */
export async function expectOwnership(world: DocumentsWorld, word: () => string): Promise<void> {
  const text = `The ${word()} belongs to operations.`;
  const id = word();
  const ofOps = (
    await world.index("plan.txt", text, {
      agent_id: "ops",
      external_id: id,
      title: "Plan",
      metadata: '{"who":"ops"}',
    })
  ).body;
  const unchanged = async (): Promise<void> => {
    const { body } = await world.get(`documents/${ofOps.id}`);
    expect(body).toMatchObject({
      status: "ready",
      filename: "plan.txt",
      agent_ids: ["ops"],
      external_id: id,
      version: ofOps.version,
    });
    expect(await world.search(text)).toContain(text);
  };
  // Its external id: refused, and nothing of the document is said.
  const named = await world.index("other.txt", "Something else.", { external_id: id }, SALES);
  expect([named.status, named.body.error.code, named.body.error.param]).toEqual([
    409,
    "external_id_taken",
    "external_id",
  ]);
  expect(named.text).not.toMatch(new RegExp(`plan|Plan|"ops"|${ofOps.id}`));
  // Its bytes: a document of its own, whatever is to happen with duplicates.
  for (const on_duplicate of ["skip", "replace", "error"]) {
    const {
      status,
      body,
      text: answer,
    } = await world.index("mine.txt", text, { on_duplicate }, SALES);
    if (on_duplicate === "error")
      expect([status, body.error.code]).toEqual([409, "duplicate_document"]);
    else
      expect([body.status, body.filename, body.agent_ids]).toEqual([
        "ready",
        "mine.txt",
        ["sales"],
      ]);
    expect(answer).not.toMatch(new RegExp(`plan|Plan|"ops"|${ofOps.id}`));
  }
  await unchanged();
  expect(await world.search(text, {}, SALES)).toContain(text);
  // A document for every agent is there for the key as well; it stays as it is.
  const common = `The ${word()} is for everyone.`;
  const ofAll = (await world.index("all.txt", common)).body;
  const same = await world.index("mine.txt", common, { external_id: word() }, SALES);
  expect([same.body.id, same.body.duplicate, same.body.external_id, same.body.agent_ids]).toEqual([
    ofAll.id,
    true,
    null,
    [],
  ]);
  const replaced = await world.index("mine.txt", common, { on_duplicate: "replace" }, SALES);
  expect([replaced.status, replaced.body.error.code]).toEqual([403, "document_shared"]);
  // The owner may still do everything with both.
  expect(
    (await world.index("plan.txt", `${text} Again.`, { agent_id: "ops", external_id: id })).body
      .version,
  ).toBe(ofOps.version + 1);
  expect((await world.del(`documents/${ofAll.id}`)).status).toBe(200);
}

/** Documents of several languages are found over HTTP by other forms of their words. */
export async function expectLanguages(world: DocumentsWorld): Promise<void> {
  const german =
    "Die Krankenhäuser der Insel werden jeden Morgen beliefert. Das ist für die Patienten wichtig.";
  const russian =
    "Потерянные зонты хранятся на складе девяносто дней. После этого они передаются музею.";
  await world.index("insel.txt", german);
  await world.index("зонты.txt", russian);
  expect((await world.search("Krankenhauslieferung"))[0]).toBe(german);
  expect((await world.search("зонтик"))[0]).toBe(russian);
}

/** A turn of an agent with `auto` is given four passages of a document at most; a search returns as many as it has. */
export async function expectLimitedPassages(world: DocumentsWorld): Promise<void> {
  const part = (n: number): string =>
    `# Part ${n}\n\n${`The gannet ${n} dives from the cliff. `.repeat(50)}`;
  const { body } = await world.index(
    "birds.md",
    Array.from({ length: 7 }, (_, n) => part(n)).join("\n\n"),
  );
  await world.index("note.txt", "A gannet was seen once.");
  expect(body.chunk_count).toBe(7);
  expect(await world.search("gannet", { limit: 8 })).toHaveLength(8);
  await world.call(
    "/v1/chat/completions",
    { model: "ops", messages: [{ role: "user", content: "gannet" }] },
    { key: DESK },
  );
  const asked = JSON.stringify(world.model.asked.at(-1)?.body.messages.at(-1));
  expect(asked.match(/document birds\.md/g)).toHaveLength(4);
  expect(asked.match(/document note\.txt/g)).toHaveLength(1);
}
