import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { describeBoth, type KnowledgeWorld } from "./world.ts";

const long = (word: string): string =>
  `The ${word} stands in a sentence that has some length. `.repeat(2000);

describeBoth((make) => {
  let world: KnowledgeWorld;
  beforeAll(async () => {
    world = await make();
  });
  afterEach(() => world.empty());
  afterAll(() => world.close());

  const ids = async (tenant: string, query = {}): Promise<string[]> =>
    (await world.knowledge.list(tenant, query)).documents.map(({ id }) => id);

  it("lists the documents whose external ids begin in the same way", async () => {
    for (const externalId of [
      "source:a:1",
      "source:a:é",
      "source:b:1",
      "source:",
      "SOURCE:A:2",
      "source:a_:1",
      "source:aé:1",
    ])
      await world.upload(`About ${externalId}.`, { externalId });
    await world.upload("Without an external id.");
    const list = async (externalIdPrefix: string, more = {}): Promise<(string | null)[]> =>
      (await world.knowledge.list("t", { externalIdPrefix, ...more })).documents.map(
        ({ externalId }) => externalId,
      );
    expect(await list("source:a:")).toEqual(["source:a:é", "source:a:1"]);
    expect(await list("source:a_")).toEqual(["source:a_:1"]);
    expect(await list("source:a", { limit: 1 })).toEqual(["source:aé:1"]);
    expect(await list("source:%")).toEqual([]);
  });

  describe("ready", () => {
    it("means searchable, at the first look", async () => {
      for (let i = 0; i < 5; i++) {
        const { id } = (await world.upload(`A note about marker${i}.`)).document;
        let status;
        do status = (await world.knowledge.get("t", id))?.status;
        while (status !== "ready");
        expect(await world.found(`marker${i}`)).toEqual([`A note about marker${i}.`]);
      }
    });

    it("comes only when all of a large document is there", async () => {
      const { id } = (await world.upload(long("walrus").repeat(15))).document;
      const isReady = async (): Promise<boolean> =>
        (await world.knowledge.get("t", id))?.status === "ready";
      const search = async (): Promise<void> => {
        const found = await world.found("walrus");
        if (found.length > 0) expect(await isReady()).toBe(true);
        else await search();
      };
      const seen = new Set<string | undefined>();
      const look = async (): Promise<void> => {
        const status = (await world.knowledge.get("t", id))?.status;
        seen.add(status);
        if (status !== "ready") await look();
      };
      await Promise.all([search(), look()]);
      // Else it was too small to be seen half-done.
      expect(seen).toContain("indexing");
    });

    it("is waited for, as long as was asked", async () => {
      const quiet = await make({ start: false });
      const { id } = (await quiet.upload("A note.")).document;
      expect(await quiet.knowledge.wait(id, 30)).toMatchObject({ status: "queued", progress: 0 });
      const waiting = quiet.knowledge.wait(id, 20_000);
      await quiet.knowledge.start();
      expect(await waiting).toMatchObject({ status: "ready", progress: 1, chunkCount: 1 });
      expect(await quiet.knowledge.wait("doc_none", 10)).toBeUndefined();
      await quiet.close();
    });
  });

  describe("the same bytes again", () => {
    it("skip: the document that is there, with the agents of both", async () => {
      const first = await world.index("The same text.", { agentIds: ["a"] });
      const again = await world.upload("The same text.", {
        agentIds: ["b"],
        filename: "other.txt",
      });
      expect(again).toMatchObject({
        duplicate: true,
        document: { id: first.id, status: "ready", agentIds: ["a", "b"], filename: "text.txt" },
      });
      expect(await world.found("same", { agentIds: ["b"] })).toHaveLength(1);
      expect(await world.found("same", { agentIds: ["c"] })).toEqual([]);
      expect((await world.upload("The same text.")).document.agentIds).toEqual([]);
      expect(await world.found("same", { agentIds: ["c"] })).toHaveLength(1);
      expect(await world.rows()).toMatchObject({ documents: 1, chunks: 1 });
      expect(readdirSync(join(world.dir, "tmp"))).toEqual([]);
    });

    it("skip: one that had failed is tried again", async () => {
      const failed = await world.index("");
      expect(failed.status).toBe("failed");
      const { document, duplicate } = await world.upload("");
      expect([document.id, document.status, document.error, duplicate]).toEqual([
        failed.id,
        "queued",
        null,
        true,
      ]);
      expect(await world.knowledge.wait(failed.id, 20_000)).toMatchObject({ status: "failed" });
    });

    it("error: refused, and nothing is left", async () => {
      const first = await world.index("The same text.");
      await expect(world.upload("The same text.", { onDuplicate: "error" })).rejects.toMatchObject({
        code: "duplicate_document",
        extra: { documentId: first.id },
      });
      expect(readdirSync(join(world.dir, "tmp"))).toEqual([]);
      expect(await ids("t")).toEqual([first.id]);
    });

    it("replace: a new document, which takes the old one's place when it is ready", async () => {
      const first = await world.index("The same text.", { title: "Old" });
      const second = await world.index("The same text.", { title: "New", onDuplicate: "replace" });
      expect(second).toMatchObject({ version: 2, title: "New" });
      expect(await ids("t")).toEqual([second.id]);
      expect(await world.knowledge.get("t", first.id)).toBeUndefined();
      expect(await world.rows()).toMatchObject({
        documents: 1,
        chunks: 1,
        passages: 1,
        words_docsize: 1,
      });
      await expect.poll(() => world.files()).toEqual([second.sha256]);
    });

    it("keep: both", async () => {
      const first = await world.index("The same text.");
      const second = await world.index("The same text.", { onDuplicate: "keep" });
      expect(second.id).not.toBe(first.id);
      expect(await world.found("same")).toHaveLength(2);
      await world.knowledge.remove("t", first.id);
      await expect.poll(() => world.files()).toEqual([second.sha256]);
      expect(await world.found("same")).toHaveLength(1);
    });

    it("two uploads together are one document", async () => {
      const both = await Promise.all([world.upload("At once."), world.upload("At once.")]);
      expect(both.filter(({ duplicate }) => duplicate)).toHaveLength(1);
      expect(both[0].document.id).toBe(both[1].document.id);
    });
  });

  describe("versions by external_id", () => {
    it("the old one is found until the new one is, and never both", async () => {
      const first = await world.index(long("walrus"), { externalId: "manual" });
      const { id } = (await world.upload(long("penguin"), { externalId: "manual" })).document;
      for (;;) {
        const [old, now] = await Promise.all([
          world.knowledge.search({ tenant: "t", text: "walrus" }),
          world.knowledge.search({ tenant: "t", text: "penguin" }),
        ]);
        // The two searches are not one: between them the change may have happened, but never back.
        if (old.length === 0) expect(await world.found("penguin")).not.toEqual([]);
        if (now.length > 0) break;
        expect(await world.found("walrus penguin")).not.toEqual([]);
      }
      expect(await world.found("walrus")).toEqual([]);
      expect(await world.knowledge.get("t", id)).toMatchObject({
        status: "ready",
        version: 2,
        externalId: "manual",
      });
      expect(await world.knowledge.get("t", first.id)).toBeUndefined();
      await expect.poll(() => world.files()).toHaveLength(1);
    });

    it("a new one that fails leaves the old one", async () => {
      await world.index("The walrus.", { externalId: "manual" });
      expect(await world.index("", { externalId: "manual" })).toMatchObject({
        status: "failed",
        version: 2,
      });
      expect(await world.found("walrus")).toHaveLength(1);
      expect(await world.index("The seal.", { externalId: "manual" })).toMatchObject({
        status: "ready",
        version: 3,
      });
      expect(await world.found("walrus seal")).toEqual(["The seal."]);
      expect(await ids("t")).toHaveLength(1);
    });

    it("back to earlier bytes, while a newer version waits, is a version of its own", async () => {
      const quiet = await make({ start: false });
      await quiet.upload("The walrus.", { externalId: "manual" });
      await quiet.upload("The seal.", { externalId: "manual" });
      const { document, duplicate } = await quiet.upload("The walrus.", { externalId: "manual" });
      expect([document.version, duplicate]).toEqual([3, false]);
      await quiet.knowledge.start();
      await quiet.knowledge.wait(document.id, 20_000);
      expect(await quiet.found("walrus seal")).toEqual(["The walrus."]);
      expect((await quiet.knowledge.list("t")).documents.map(({ id }) => id)).toEqual([
        document.id,
      ]);
      await quiet.close();
    });

    it("the same bytes: the same document; under another name: another one; without a name: that one", async () => {
      const first = await world.index("The walrus.", { externalId: "one" });
      expect((await world.upload("The walrus.", { externalId: "one" })).document.id).toBe(first.id);
      expect((await world.upload("The walrus.")).document.id).toBe(first.id);
      expect((await world.upload("The walrus.", { externalId: "two" })).duplicate).toBe(false);
      const plain = await world.index("The seal.");
      expect((await world.upload("The seal.", { externalId: "three" })).document).toMatchObject({
        id: plain.id,
        externalId: "three",
      });
    });
  });

  describe("scopes", () => {
    it("what others have does not push out what one may see", async () => {
      await world.index("A rare word: quokka, and much else besides.", { tenant: "small" });
      for (let i = 0; i < 40; i++) await world.upload(`quokka quokka ${i}`, { tenant: "big" });
      await world.index("quokka last", { tenant: "big", agentIds: ["b"] });
      const found = await world.knowledge.search({ tenant: "small", text: "quokka", limit: 1 });
      expect(found).toHaveLength(1);
      const own = await world.knowledge.search({
        tenant: "big",
        agentIds: ["a"],
        text: "last",
        limit: 1,
      });
      expect(own).toEqual([]);
    });
  });

  describe("deleting", () => {
    it("leaves no chunk, word, vector or file", async () => {
      const keep = await world.index("The one that stays.");
      const gone = await world.index(long("walrus"));
      expect((await world.rows())["chunks"]).toBeGreaterThan(20);
      expect(await world.knowledge.remove("t", gone.id)).toBe(true);
      expect(await world.knowledge.remove("t", gone.id)).toBe(false);
      expect(await world.rows()).toMatchObject({
        documents: 1,
        chunks: 1,
        passages: 1,
        vectors: 0,
        words_docsize: 1,
      });
      expect(await world.found("walrus")).toEqual([]);
      await expect.poll(() => world.files()).toEqual([keep.sha256]);
    });

    it("stops the work on it: the reader is free for the next one", async () => {
      const extractionChild = join(world.dir, "loops.mjs");
      const reply = '{ kind: "failed", error: { code: "no_text_found", message: "none" } }';
      writeFileSync(
        extractionChild,
        `process.on("message", (call) => { while (call.filename === "loop"); process.send(${reply}); });`,
      );
      const slow = await make({ config: { workers: 1 }, extractionChild });
      const { document } = await slow.upload("one", { filename: "loop" });
      while ((await slow.knowledge.get("t", document.id))?.status === "queued");
      const waiting = slow.knowledge.wait(document.id, 20_000);
      await slow.knowledge.remove("t", document.id);
      expect(await waiting).toBeUndefined();
      expect(await slow.index("two")).toMatchObject({
        status: "failed",
        error: { code: "no_text_found" },
      });
      await slow.close();
    });

    it("in the middle of indexing leaves nothing", async () => {
      const { document } = await world.upload(long("walrus").repeat(15));
      while ((await world.knowledge.get("t", document.id))?.status !== "indexing");
      await world.knowledge.remove("t", document.id);
      await world.index("Another one.");
      expect(await world.rows()).toMatchObject({
        documents: 1,
        chunks: 1,
        passages: 1,
        vectors: 0,
        words_docsize: 1,
      });
      await expect.poll(() => world.files()).not.toContain(document.sha256);
    });
  });

  describe("reindexing", () => {
    it("keeps what was found until it is done, and leaves nothing of it", async () => {
      const first = await world.index(long("walrus"));
      expect(await world.knowledge.reindex("t", first.id)).toMatchObject({
        id: first.id,
        status: "queued",
      });
      expect(await world.found("walrus")).not.toEqual([]);
      expect(await world.knowledge.wait(first.id, 20_000)).toMatchObject({
        status: "ready",
        chunkCount: first.chunkCount,
      });
      expect(await world.rows()).toMatchObject({
        documents: 1,
        chunks: first.chunkCount,
        passages: first.chunkCount,
        words_docsize: first.chunkCount,
      });
    });

    it("that fails keeps what was found, and says why", async () => {
      const first = await world.index("The walrus.");
      await world.loseFile(first.sha256);
      await world.knowledge.reindex("t", first.id);
      expect(await world.knowledge.wait(first.id, 20_000)).toMatchObject({
        status: "ready",
        error: { code: "broken_document" },
        chunkCount: 1,
      });
      expect(await world.found("walrus")).toEqual(["The walrus."]);
      // The same bytes come again: the file is back, and the next indexing works.
      await world.upload("The walrus.");
      await world.knowledge.reindex("t", first.id);
      expect(await world.knowledge.wait(first.id, 20_000)).toMatchObject({
        status: "ready",
        error: null,
      });
    });

    it("many at the same time end with one index", async () => {
      const first = await world.index(long("walrus"));
      for (let i = 0; i < 5; i++) {
        await world.knowledge.reindex("t", first.id);
        await new Promise((done) => setTimeout(done, i * 4));
      }
      await world.knowledge.wait(first.id, 20_000);
      await world.restart();
      expect(await world.rows()).toMatchObject({
        documents: 1,
        chunks: first.chunkCount,
        words_docsize: first.chunkCount,
      });
      expect(await world.found("walrus")).not.toEqual([]);
    });
  });

  describe("lists", () => {
    it("newest first, by pages, and by what is asked", async () => {
      const made: string[] = [];
      for (let i = 0; i < 5; i++)
        made.push(
          (
            await world.index(`Note ${i}`, {
              ...(i === 2 ? { agentIds: ["a"] } : {}),
              ...(i === 3 ? { externalId: "x" } : {}),
            })
          ).id,
        );
      const failed = await world.index("");
      const newest = [...made].toReversed();
      expect(await ids("t", { limit: 2 })).toEqual([failed.id, newest[0]]);
      expect(await world.knowledge.list("t", { limit: 2 })).toMatchObject({ hasMore: true });
      expect(await ids("t", { after: newest[0] })).toEqual(newest.slice(1));
      expect(await ids("t", { status: "failed" })).toEqual([failed.id]);
      expect(await ids("t", { externalId: "x" })).toEqual([made[3]]);
      expect(await ids("t", { agentIds: ["b"], status: "ready" })).toEqual(
        newest.filter((id) => id !== made[2]),
      );
    });
  });
});
