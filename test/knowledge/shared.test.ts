import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from "vitest";
import type { Embedder, Passage } from "../../src/knowledge/types.ts";
import { describePostgres, newSchema, type Schema } from "../store/postgres.ts";
import { startAdding } from "./crash.ts";
import { onPostgres, type KnowledgeWorld, type WorldOptions } from "./world.ts";

const common: Schema = newSchema();
/** Two gateways that read documents, for all tests in which they may. */
let one: KnowledgeWorld;
let two: KnowledgeWorld;
let worlds: KnowledgeWorld[] = [];

/** One more gateway on a database, with a folder of its own. */
async function gateway(options: WorldOptions = {}, schema = common): Promise<KnowledgeWorld> {
  const world = await onPostgres(options, { ...schema, drop: () => Promise.resolve() });
  worlds.push(world);
  return world;
}
/** A database for one test alone, so that no other gateway takes its documents. */
function ownSchema(): Schema {
  const schema = newSchema();
  onTestFinished(schema.drop);
  return schema;
}
async function closeGateways(): Promise<void> {
  for (const world of worlds) await world.knowledge.close();
  for (const world of worlds.splice(0)) await world.close();
}
const until = async (done: () => boolean | Promise<boolean>): Promise<void> => {
  while (!(await done())) await new Promise((resolve) => setTimeout(resolve, 20));
};

/** An embedder that gives all texts the same vector, and the texts that it was given. */
function recordingEmbedder(): { embed: Embedder; texts: string[] } {
  const texts: string[] = [];
  const embed: Embedder = {
    model: "m",
    embed: async (some) => {
      texts.push(...some);
      return some.map(() => Float32Array.from([1, 0]));
    },
  };
  return { embed, texts };
}

/** A reader that never comes to an end, unless the document says so. */
function endless(world: KnowledgeWorld): string {
  const file = join(world.dir, "endless.mjs");
  const reply =
    '{ kind: "failed", tired: false, error: { code: "no_text_found", message: "none" } }';
  writeFileSync(
    file,
    `process.on("message", (call) => { while (call.filename === "loop"); process.send(${reply}); });`,
  );
  return file;
}

describePostgres("several gateways on one PostgreSQL", () => {
  beforeAll(async () => {
    [one, two] = [await gateway(), await gateway()];
    worlds = [];
  });
  afterEach(async () => {
    await closeGateways();
    const { documents } = await one.knowledge.list("t", { limit: 500 });
    for (const { id } of documents) await one.knowledge.remove("t", id);
  });
  afterAll(async () => {
    worlds = [one, two];
    await closeGateways();
    await common.drop();
  });

  it("what one takes another reads, and each finds it; a large file comes over whole", async () => {
    const takes = await gateway({ start: false });
    const text = `The walrus stands in a long file.\n\n${"Some words of no importance. ".repeat(40_000)}`;
    const { document } = await takes.upload(text, { filename: "long.txt" });
    expect(await takes.knowledge.wait(document.id, 25_000)).toMatchObject({
      status: "ready",
      bytes: text.length,
    });
    for (const world of [takes, one, two])
      expect((await world.found("walrus"))[0]).toContain("The walrus stands");
    for (const { dir } of [takes, one, two]) expect(readdirSync(join(dir, "tmp"))).toEqual([]);
    expect((await takes.upload(text)).duplicate).toBe(true);
  });

  it("what one deletes, replaces or gives another agent, the next search of another one knows", async () => {
    const agentIds = ["a"];
    const { id } = await one.index("The walrus sleeps.", { agentIds });
    await one.index("The heron sleeps.", { externalId: "heron" });
    expect(await two.found("sleeps", { agentIds: ["b"] })).toEqual(["The heron sleeps."]);
    await one.upload("The walrus sleeps.", { agentIds: ["b"] });
    await one.index("The heron stands, and sleeps no more.", { externalId: "heron" });
    expect((await two.found("sleeps", { agentIds: ["b"] })).toSorted()).toEqual([
      "The heron stands, and sleeps no more.",
      "The walrus sleeps.",
    ]);
    await one.knowledge.remove("t", id);
    expect(await two.found("walrus")).toEqual([]);
    expect(await two.rows()).toMatchObject({
      documents: 1,
      passages: 1,
      chunks: 1,
      words_docsize: 1,
    });
  });

  it("a document that one deletes another stops reading", async () => {
    const schema = ownSchema();
    const busy = await gateway({ start: false }, schema);
    const slow = await gateway({ extractionChild: endless(busy) }, schema);
    const { document } = await slow.upload("one", { filename: "loop" });
    await until(async () => (await busy.knowledge.get("t", document.id))?.status === "extracting");
    expect(await busy.knowledge.remove("t", document.id)).toBe(true);
    // Its reader is free again, or this one would wait for ever.
    expect(await slow.index("two", { filename: "other" })).toMatchObject({
      error: { code: "no_text_found" },
    });
    expect(await busy.rows()).toMatchObject({ documents: 1, chunks: 0, passages: 0 });
  });

  it("each document is read once, however many gateways there are", async () => {
    const all = [one, two, await gateway()];
    const ids = (
      await Promise.all(
        Array.from({ length: 30 }, (_, n) =>
          (all[n % 3] as KnowledgeWorld).upload(`Text about marker${n}.`),
        ),
      )
    ).map(({ document }) => document.id);
    for (const id of ids)
      expect(await one.knowledge.wait(id, 25_000)).toMatchObject({ status: "ready" });
    expect(
      await one.execute("SELECT DISTINCT generation, building FROM knowledge_documents"),
    ).toEqual([{ generation: 1, building: 1 }]);
    expect((await two.rows())["chunks"]).toBe(30);
  });

  it("what another one is half through with is neither found nor counted", async () => {
    for (const text of [
      "The walrus sleeps.",
      "A walrus and a heron.",
      "Nothing of the kind.",
      "Nor here.",
      "Nor there.",
    ])
      await one.index(text);
    const ask = () => one.knowledge.search({ tenant: "t", text: "walrus heron" });
    const before = await ask();
    expect(before.map(({ text }) => text)).toEqual(["A walrus and a heron.", "The walrus sleeps."]);
    await one.execute(`INSERT INTO knowledge_passages (doc, generation, n, page, start_at, end_at, gram_count, headings, text, words, grams)
      SELECT doc, generation + 1, n, page, start_at, end_at, gram_count, headings, text, 'heron heron walru', grams FROM knowledge_passages`);
    await one.execute(`UPDATE knowledge_documents
      SET building = 2, status = 'indexing', holder = 'another', lease = 9e15`);
    const shown = (passages: Passage[]) => passages.map(({ chunkId }) => chunkId);
    expect(shown(await ask())).toEqual(shown(before));
    const agent = { tenant: "t", text: "walrus heron", agentIds: ["a"] };
    expect(shown(await one.knowledge.search(agent))).toEqual(shown(before));
  });

  it("versions that two gateways finish at the same moment leave the newest", async () => {
    for (let n = 0; n < 6; n++)
      await (n % 2 === 0 ? one : two).upload(`Version ${n} of the manual.`, {
        externalId: "manual",
      });
    await until(async () => {
      const { documents } = await one.knowledge.list("t");
      return documents.length === 1 && documents[0]?.status === "ready";
    });
    expect(await one.found("manual version")).toEqual(["Version 5 of the manual."]);
    expect(await one.rows()).toMatchObject({ documents: 1, chunks: 1, passages: 1 });
    expect(await one.files()).toHaveLength(1);
  });

  it("vectors are made once, by whichever gateway comes first", async () => {
    const { embed, texts } = recordingEmbedder();
    const [first, second] = [await gateway({ embed }), await gateway({ embed })];
    const made = await Promise.all(
      Array.from({ length: 20 }, (_, n) => [first, second][n % 2]?.index(`Text number ${n}.`)),
    );
    for (const document of made)
      await until(
        async () => (await first.knowledge.get("t", document?.id ?? ""))?.embeddedCount === 1,
      );
    expect(texts).toHaveLength(20);
    expect(
      (await second.knowledge.search({ tenant: "t", text: "nothing alike", limit: 30 })).length,
    ).toBe(20);
  });

  it("a kill in the middle of indexing loses nothing that was accepted: another takes it over", async () => {
    const schema = ownSchema();
    const world = await gateway({ start: false }, schema);
    const adding = startAdding(world.dir, 0, schema.url);
    await until(() => adding.count() >= 3);
    await until(async () => {
      const text = "SELECT 1 FROM knowledge_documents WHERE status IN ('extracting', 'indexing')";
      return (await world.execute(text)).length > 0;
    });
    const accepted = await adding.kill();
    await world.knowledge.start();
    let chunks = 0;
    for (const id of accepted.values())
      expect(await world.knowledge.wait(id, 60_000)).toMatchObject({ id, status: "ready" });
    const { documents } = await world.knowledge.list("t", { limit: 500 });
    for (const { id } of documents)
      chunks += (await world.knowledge.wait(id, 60_000))?.chunkCount ?? 0;
    expect(await world.rows()).toMatchObject({
      documents: documents.length,
      chunks,
      passages: chunks,
    });
    for (const [n, id] of accepted) {
      const found = await world.knowledge.search({ tenant: "t", text: `marker${n}`, limit: 1 });
      expect(found[0]?.documentId).toBe(id);
    }
  });
});
