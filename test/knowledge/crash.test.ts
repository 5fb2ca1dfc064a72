import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";
import { startAdding } from "./crash.ts";
import { createWorld } from "./world.ts";

const KILLS = 4;

it("a kill in the middle of indexing loses nothing that was accepted, and leaves nothing half-done", async () => {
  const world = await createWorld();
  await world.knowledge.close();
  const accepted = new Map<number, string>();
  let halfDone = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    const adding = startAdding(world.dir, kill * 1000);
    while (adding.count() === 0) await new Promise((done) => setTimeout(done, 5));
    await new Promise((done) => setTimeout(done, 40 + kill * 100));
    for (const [n, id] of await adding.kill()) accepted.set(n, id);
    const db = new DatabaseSync(join(world.dir, "knowledge.db"));
    halfDone += (
      db
        .prepare(
          "SELECT count(*) AS n FROM knowledge_documents WHERE status IN ('extracting', 'indexing')",
        )
        .get() as { n: number }
    ).n;
    db.close();
  }
  expect(accepted.size).toBeGreaterThan(KILLS);
  // Or the kills came at times that prove nothing.
  expect(halfDone).toBeGreaterThan(0);

  await world.restart();
  let chunks = 0;
  for (const id of accepted.values()) {
    const document = await world.knowledge.wait(id, 60_000);
    expect(document).toMatchObject({ id, status: "ready" });
  }
  const { documents } = await world.knowledge.list("t", { limit: 500 });
  for (const { id } of documents)
    chunks += (await world.knowledge.wait(id, 60_000))?.chunkCount ?? 0;
  expect(await world.rows()).toMatchObject({
    documents: documents.length,
    chunks,
    passages: chunks,
    words_docsize: chunks,
    vectors: 0,
  });
  for (const [n, id] of accepted) {
    const found = await world.knowledge.search({ tenant: "t", text: `marker${n}`, limit: 1000 });
    const document = documents.find((one) => one.id === id);
    expect(found.map(({ documentId }) => documentId)).toEqual(
      Array.from({ length: (await world.knowledge.get("t", id))?.chunkCount ?? -1 }, () => id),
    );
    expect(document).toBeDefined();
  }
  expect(await world.files()).toEqual(documents.map(({ sha256 }) => sha256).toSorted());
  await world.close();
});
