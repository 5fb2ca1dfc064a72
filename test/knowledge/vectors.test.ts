import { DatabaseSync } from "node:sqlite";
import { beforeEach, expect, it } from "vitest";
import { prepareKnowledge } from "../../src/knowledge/db/schema.ts";
import { Vectors } from "../../src/knowledge/db/vectors.ts";
import { normalized } from "../../src/knowledge/embed.ts";
import { Statements } from "../../src/store/sqlite/statements.ts";

const DIMENSION = 48;
const MODEL = "m";

let db: DatabaseSync;
let vectors: Vectors;
let state = 7;
/** The same numbers in every run. */
const random = (): number => {
  state = (state * 48271) % 2147483647;
  return state / 2147483647 - 0.5;
};
const some = (): Float32Array => normalized(Float32Array.from({ length: DIMENSION }, random));
const dot = (a: Float32Array, b: Float32Array): number =>
  a.reduce((sum, value, index) => sum + value * (b[index] as number), 0);

const put = (
  seq: number,
  vector: Float32Array,
  { doc = 1, generation = 1, model = MODEL } = {},
): void => {
  db.prepare("INSERT OR REPLACE INTO chunks (seq, doc, generation) VALUES (?, ?, ?)").run(
    seq,
    doc,
    generation,
  );
  const text = "INSERT OR REPLACE INTO vectors (seq, model, dimension, vector) VALUES (?, ?, ?, ?)";
  db.prepare(text).run(seq, model, vector.length, new Uint8Array(vector.buffer));
};
const ALL = new Map([[1, 1]]);

beforeEach(() => {
  db = new DatabaseSync(":memory:");
  prepareKnowledge(db, 0);
  vectors = new Vectors(new Statements(db));
});

it("ranks as an exact comparison of all does, over more than one block", () => {
  const all = new Map<number, Float32Array>();
  db.exec("BEGIN");
  for (let seq = 1; seq <= 6000; seq++) {
    all.set(seq, some());
    put(seq, all.get(seq) as Float32Array);
  }
  db.exec("COMMIT");
  for (let i = 0; i < 10; i++) {
    const question = some();
    const exact = [...all]
      .map(([seq, vector]) => ({ seq, score: dot(vector, question) }))
      .toSorted((a, b) => b.score - a.score);
    const found = vectors.nearest(ALL, MODEL, question, 20);
    expect(found.map(({ seq }) => seq)).toEqual(exact.slice(0, 20).map(({ seq }) => seq));
    expect(found[0]?.score).toBeCloseTo(exact[0]?.score ?? 0, 5);
  }
});

it("looks only at what may be seen, and at what came since", () => {
  const question = some();
  put(1, question);
  put(2, some(), { doc: 2 });
  put(3, some(), { doc: 2, generation: 2 });
  put(4, question, { model: "another" });
  const seen = (visible: Map<number, number>): number[] =>
    vectors.nearest(visible, MODEL, question, 10).map(({ seq }) => seq);
  expect(seen(ALL)).toEqual([1]);
  expect(seen(new Map([[2, 1]]))).toEqual([2]);
  expect(seen(new Map([[2, 2]]))).toEqual([3]);
  expect(seen(new Map())).toEqual([]);
  put(5, some());
  expect(seen(ALL)).toEqual([1, 5]);
  db.exec("DELETE FROM vectors WHERE seq = 1; DELETE FROM chunks WHERE seq = 1");
  expect(seen(ALL)).toEqual([5]);
});

it("another model, or another length of the same one, begins anew", () => {
  const question = some();
  put(1, question);
  expect(vectors.nearest(ALL, MODEL, question, 10)).toHaveLength(1);
  expect(vectors.nearest(ALL, "another", question, 10)).toEqual([]);
  expect(vectors.nearest(ALL, MODEL, question.slice(0, 8), 10)).toEqual([]);
  expect(vectors.nearest(ALL, MODEL, question, 10)).toHaveLength(1);
});

it("finds the same after most of what it holds was deleted", () => {
  const question = some();
  for (let round = 0; round < 4; round++) {
    db.exec("BEGIN; DELETE FROM vectors; DELETE FROM chunks");
    for (let seq = 1; seq <= 900; seq++) put(round * 1000 + seq, some());
    db.exec("COMMIT");
    const found = vectors.nearest(ALL, MODEL, question, 5);
    expect(found).toHaveLength(5);
    for (const { seq } of found) expect(Math.floor(seq / 1000)).toBe(round);
  }
});
