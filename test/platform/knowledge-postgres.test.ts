import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { documentsWorld, formOf, type DocumentsWorld } from "./documents.ts";

let schema: Schema;
let world: DocumentsWorld;

describePostgres("documents in PostgreSQL, over HTTP", () => {
  beforeAll(async () => {
    schema = newSchema();
    world = await documentsWorld({
      config: { store: { url: schema.url } },
      platform: { knowledge: { uploads: 8 } },
    });
  });
  afterAll(async () => {
    await world.close();
    await schema.drop();
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
});
