import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { describePostgres, newSchema, plainly, type Schema } from "../store/postgres.ts";
import {
  DESK,
  documentsWorld,
  expectLanguages,
  expectLimitedPassages,
  expectOwnership,
  formOf,
  READER,
  SALES,
  STRANGER,
  type DocumentsWorld,
} from "./documents.ts";

let schema: Schema;
let world: DocumentsWorld;

const count = (table: string): Promise<number> =>
  plainly(async (client) => {
    const { rows } = await client.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM "${schema.name}".knowledge_${table}`,
    );
    return rows[0]?.n ?? -1;
  });

describePostgres("documents in PostgreSQL, over HTTP", () => {
  beforeAll(async () => {
    schema = newSchema();
    world = await documentsWorld({
      config: { store: { url: schema.url } },
      platform: { knowledge: { uploads: 8 } },
      agents: [{ id: "ops", knowledge: "auto" }, { id: "sales" }],
    });
  });
  afterAll(async () => {
    await world.close();
    await schema.drop();
  });
  beforeEach(() => {
    world.model.asked.length = 0;
    expect(world.staged()).toEqual([]);
  });

  it("are taken, indexed, found, and known when they come again", async () => {
    const text = "The walrus sleeps in the harbour.";
    const first = await world.upload(formOf("a.txt", text, { title: "Walruses" }));
    expect([first.status, first.body.filename, first.body.title]).toEqual([
      202,
      "a.txt",
      "Walruses",
    ]);
    const { body } = await world.get(`documents/${first.body.id}?wait=25`);
    expect(body).toMatchObject({
      status: "ready",
      progress: 1,
      error: null,
      chunk_count: 1,
      mime_type: "text/plain",
    });
    expect(await world.search("where do walruses sleep")).toEqual([text]);
    const again = await world.upload(formOf("b.txt", text));
    expect([again.status, again.body.id, again.body.duplicate]).toEqual([200, first.body.id, true]);
    const refused = await world.upload(formOf("b.txt", text, { on_duplicate: "error" }));
    expect([refused.status, refused.body.error.code]).toEqual([409, "duplicate_document"]);
    // The state folder has an index of it alone.
    expect(readdirSync(join(world.dir, ".rouse")).filter((name) => name.endsWith(".db"))).toEqual([
      "knowledge-index.db",
    ]);
  });

  it("that arrive together are each taken for itself", async () => {
    const form = (n: number) =>
      world.upload(
        formOf(`${n}.txt`, `Heron ${n} of the marsh.`, { wait: "25", on_duplicate: "error" }),
      );
    const answers = await Promise.all([form(1), form(2), form(1), form(3), form(2)]);
    expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      200, 200, 200, 409, 409,
    ]);
    expect((await world.search("heron", { limit: 10 })).toSorted()).toEqual(
      [1, 2, 3].map((n) => `Heron ${n} of the marsh.`),
    );
  });

  it("are replaced by a new version in one step, and by nothing that cannot be read", async () => {
    const index = (text: string) => world.index("manual.txt", text, { external_id: "manual" });
    const old = (await index("The ibex climbs by day.")).body;
    const next = (await index("The ibex climbs by night.")).body;
    expect([old.version, next.version, next.status]).toEqual([1, 2, "ready"]);
    expect((await world.get(`documents/${old.id}`)).status).toBe(404);
    expect(await world.search("ibex")).toEqual(["The ibex climbs by night."]);
    expect((await index("")).body).toMatchObject({
      status: "failed",
      error: { code: "no_text_found" },
    });
    expect(await world.search("ibex")).toEqual(["The ibex climbs by night."]);
    const { body } = await world.call(
      `/v1/knowledge/documents/${next.id}/reindex?wait=25`,
      {},
      { key: DESK },
    );
    expect([body.id, body.status]).toEqual([next.id, "ready"]);
    expect(await world.search("ibex")).toEqual(["The ibex climbs by night."]);
  });

  it("stay with their tenant and their agents, in lists and in searches", async () => {
    const secret = (await world.index("o.txt", "The okapi is for operations.", { agent_id: "ops" }))
      .body;
    const open = (await world.index("s.txt", "The okapi is for sales and operations.")).body;
    expect(await world.search("okapi")).toHaveLength(2);
    expect(await world.search("okapi", {}, READER)).toHaveLength(2);
    expect(await world.search("okapi", {}, SALES)).toEqual([
      "The okapi is for sales and operations.",
    ]);
    expect(await world.search("okapi", { agent_id: "sales" })).toEqual([
      "The okapi is for sales and operations.",
    ]);
    expect(await world.search("okapi", {}, STRANGER)).toEqual([]);
    const ids = async (key: string) =>
      (await world.get("documents?limit=2", key)).body.data.map(({ id }: { id: string }) => id);
    expect(await ids(DESK)).toEqual([open.id, secret.id]);
    expect((await ids(SALES))[0]).toBe(open.id);
    expect(await ids(SALES)).not.toContain(secret.id);
    expect(await ids(STRANGER)).toEqual([]);
    expect((await world.get(`documents/${secret.id}`, STRANGER)).status).toBe(404);
    expect((await world.del(`documents/${open.id}`, SALES)).body.error.code).toBe(
      "document_shared",
    );
  });

  it("are left alone by keys of other agents", () => {
    let words = 0;
    return expectOwnership(world, () => `capybara${++words}`);
  });

  it("are found in the forms of their own language", () => expectLanguages(world));

  it("do not fill a turn with passages of one document", () => expectLimitedPassages(world));

  it("go with all that hangs on them", async () => {
    const { body } = await world.index("gone.txt", "The quokka leaves.\n\n".repeat(400));
    const before = [await count("passages"), await count("files"), await count("file_parts")];
    expect((await world.del(`documents/${body.id}`)).status).toBe(200);
    const after = [await count("passages"), await count("files"), await count("file_parts")];
    expect(after).toEqual(before.map((n, index) => n - (index < 1 ? body.chunk_count : 1)));
    expect(await world.search("quokka")).toEqual([]);
    expect((await world.get(`documents/${body.id}`)).status).toBe(404);
  });

  it("are put before an agent with `knowledge: auto`, and cited", async () => {
    const { body: terms } = await world.index(
      "terms.md",
      "# Returns\n\nReturns are taken within 30 days.",
      { title: "Terms of sale" },
    );
    world.model.says = () => ({ text: ["Within 30 days [1]."] });
    const messages = [{ role: "user", content: "How long are returns taken?" }];
    const { status, body } = await world.chat({ model: "ops", messages }, { key: DESK });
    expect([status, body.choices[0].message.content]).toEqual([200, "Within 30 days [1]."]);
    expect(body.citations).toMatchObject([
      { index: 1, document_id: terms.id, filename: "terms.md", title: "Terms of sale" },
    ]);
    const said = JSON.stringify(world.model.asked[0]?.body.messages.at(-1).content);
    expect(said).toMatch(
      /<<<EXTERNAL_CONTENT ([0-9a-f]{32})>>>[^<]*Returns are taken within 30 days[^]*<<<END_EXTERNAL_CONTENT \1>>>[^]*How long are returns taken/,
    );
    const other = await world.chat({ model: "ops", messages }, { key: STRANGER });
    expect([other.status, other.body.citations]).toEqual([200, undefined]);
    expect(JSON.stringify(world.model.asked[1]?.body.messages)).not.toContain("30 days");
  });
});
