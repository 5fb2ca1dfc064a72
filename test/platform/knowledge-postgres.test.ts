import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { DESK, documentsWorld, formOf, STRANGER, type DocumentsWorld } from "./documents.ts";

let schema: Schema;
let world: DocumentsWorld;

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
