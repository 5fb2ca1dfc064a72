import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createWorld, type KnowledgeWorld } from "./world.ts";

const INDEX = "knowledge-index.db";

let world: KnowledgeWorld;
beforeAll(async () => {
  world = await createWorld();
  for (let n = 0; n < 3; n++) await world.index(`The walrus number ${n} sleeps.`);
  const gone = await world.index("The walrus that left.");
  await world.knowledge.remove("t", gone.id);
});
afterAll(() => world.close());

describe("in the local index", () => {
  it.each<[string, (dir: string) => Promise<void>]>([
    [
      "is lost",
      async (dir) => {
        for (const name of await readdir(dir))
          if (name.startsWith(INDEX)) await rm(join(dir, name));
      },
    ],
    ["is damaged", (dir) => writeFile(join(dir, INDEX), "no database".repeat(1000))],
    [
      "is of other documents",
      async (dir) => {
        const db = new DatabaseSync(join(dir, INDEX));
        db.exec("UPDATE state SET catalog = 'another'; DELETE FROM words");
        db.close();
      },
    ],
    [
      "is ahead of the documents, which came from a backup",
      async (dir) => {
        const db = new DatabaseSync(join(dir, INDEX));
        db.exec("UPDATE state SET change = 1000, passage = 1000; DELETE FROM words");
        db.close();
      },
    ],
  ])("an index that %s is built again from the passages", async (_, spoil) => {
    const before = await world.found("walrus");
    expect(before).toHaveLength(3);
    await world.knowledge.close();
    await spoil(world.dir);
    await world.restart();
    expect(await world.found("walrus")).toEqual(before);
    expect(await world.rows()).toMatchObject({ documents: 3, chunks: 3, words_docsize: 3 });
  });
});
