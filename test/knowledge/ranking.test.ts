import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLogger } from "../../src/core/log.ts";
import type { SqlSource } from "../../src/store/sql/sql.ts";
import { evaluate, measure, type Evaluation } from "../../bench/evaluate.ts";
import { describePostgres, newSchema, sqlSource } from "../store/postgres.ts";
import { createWorld, FIXTURES, type KnowledgeWorld } from "./world.ts";

const log = createLogger("silent");

const smallCorpus = (language: string, sql?: SqlSource): Promise<Evaluation> =>
  evaluate(join(FIXTURES, `corpus-${language}`), { log, sql });

describe.each(["en", "zh"])("the small corpus, %s", (language) => {
  it("every question finds its passage first, or nearly", async () => {
    const figures = await smallCorpus(language);
    expect(figures).toMatchObject({ documents: 20, queries: 20, recall100: 1 });
    expect(figures.ndcg10).toBeGreaterThanOrEqual(0.98);
    expect(figures.map).toBeGreaterThanOrEqual(0.97);
  });

  describePostgres("in PostgreSQL", () => {
    it("the ranking is the same", async () => {
      const { ndcg10, map, recall100 } = await smallCorpus(language);
      const schema = newSchema();
      try {
        const figures = await smallCorpus(language, sqlSource(schema));
        expect(figures).toMatchObject({ ndcg10, map, recall100 });
      } finally {
        await schema.drop();
      }
    });
  });
});

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
});

describe("questions as people ask them", () => {
  let world: KnowledgeWorld;
  beforeAll(async () => {
    world = await createWorld();
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
