import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLogger } from "../../src/core/log.ts";
import type { StoreDriver } from "../../src/store/types.ts";
import { evaluate, measure } from "../../src/knowledge/evaluate.ts";
import { postgresAddress } from "../store/postgres-client.ts";
import { describePostgres, POSTGRES } from "../store/postgres.ts";
import { describeBoth, FIXTURES, type KnowledgeWorld } from "./world.ts";

const log = createLogger("silent");

function smallCorpus(store: () => { driver: StoreDriver; url: string } | undefined): void {
  it.each(["en", "zh"])(
    "%s: every question finds its passage first, or nearly",
    async (language) => {
      const figures = await evaluate(join(FIXTURES, `corpus-${language}`), { log, store: store() });
      expect(figures).toMatchObject({ documents: 20, queries: 20, recall100: 1 });
      expect(figures.ndcg10).toBeGreaterThanOrEqual(0.98);
      expect(figures.map).toBeGreaterThanOrEqual(0.97);
    },
  );
}

describe("the small corpus", () => smallCorpus(() => undefined));
describePostgres("the small corpus, in PostgreSQL", () =>
  smallCorpus(() => ({ driver: POSTGRES, url: postgresAddress().href })),
);

describe("the figures", () => {
  const relevant = new Map([
    ["a", 1],
    ["b", 1],
    ["c", 0],
  ]);

  it("of a ranking", () => {
    expect(measure(["a", "b"], relevant)).toEqual({ ndcg10: 1, map: 1, recall100: 1 });
    expect(measure(["c", "x", "y"], relevant)).toEqual({ ndcg10: 0, map: 0, recall100: 0 });
    const { ndcg10, map, recall100 } = measure(["x", "a", "c"], relevant);
    expect(ndcg10).toBeCloseTo(1 / Math.log2(3) / (1 + 1 / Math.log2(3)), 12);
    expect([map, recall100]).toEqual([0.25, 0.5]);
  });

  it("what comes after the tenth place does not count for nDCG@10, after the hundredth not for recall", () => {
    const filler = (count: number): string[] =>
      Array.from({ length: count }, (_, index) => `x${index}`);
    expect(measure([...filler(10), "a"], new Map([["a", 1]]))).toEqual({
      ndcg10: 0,
      map: 1 / 11,
      recall100: 1,
    });
    expect(measure([...filler(100), "a"], new Map([["a", 1]])).recall100).toBe(0);
  });
});

describe("a folder that is no test set", () => {
  const dir = mkdtempSync(join(tmpdir(), "rouse-beir-"));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  it("says what is wrong", async () => {
    await expect(evaluate(dir, { log })).rejects.toMatchObject({ code: "ENOENT" });
    writeFileSync(join(dir, "qrels.tsv"), "query-id\tcorpus-id\tscore\n1\ta\t1\n");
    writeFileSync(join(dir, "corpus.jsonl"), '{"_id":"a","text":"tide"}\nno JSON\n');
    writeFileSync(join(dir, "queries.jsonl"), '{"_id":"2","text":"tide"}\n');
    await expect(evaluate(dir, { log })).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining("line 2") as string,
    });
    writeFileSync(join(dir, "corpus.jsonl"), '{"_id":"a","text":"tide"}\n');
    await expect(evaluate(dir, { log })).rejects.toMatchObject({
      code: "usage",
      message: expect.stringContaining("no query") as string,
    });
  });
});

describeBoth((make) => {
  describe("questions as people ask them", () => {
    let world: KnowledgeWorld;
    beforeAll(async () => {
      world = await make();
      await world.index(
        "Umbrellas that were found are kept for ninety days. (“Lost” means: nobody asked.)",
      );
      await world.index("港口咖啡馆每天早上七点开门。");
      await world.index("ร้านกาแฟเปิดเวลาเจ็ดโมงเช้าทุกวัน");
      await world.index("हिन्दी में एक वाक्य।");
    });
    afterAll(() => world.close());

    it.each([
      ["umbrella", 1],
      ["Where is the umbrella that I lost last Tuesday evening?", 1],
      ['"lost" AND (nobody OR NEAR', 1],
      ["words:* ^ - + \" ' ; DROP TABLE", 0],
      ["七点", 1],
      ["馆", 1],
      ["กาแฟ", 1],
      ["หมา", 0],
      ["हिन्दी", 1],
      ["हन", 0],
      ["\u0301", 0],
      ["", 0],
      ["???", 0],
      ["x".repeat(100_000), 0],
    ])("%s", async (question, count) => {
      expect(await world.found(question)).toHaveLength(count);
    });

    it("limits how many come back", async () => {
      for (let i = 0; i < 12; i++) await world.index(`Lighthouse ${i}`, { tenant: "many" });
      expect(await world.found("lighthouse", { tenant: "many" })).toHaveLength(8);
      expect(
        await world.knowledge.search({ tenant: "many", text: "lighthouse", limit: 10 }),
      ).toHaveLength(10);
      expect(
        await world.knowledge.search({ tenant: "many", text: "lighthouse", limit: 0 }),
      ).toHaveLength(1);
    });
  });
});
