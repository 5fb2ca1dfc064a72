import type { Statements } from "../../store/sqlite/statements.ts";
import type { Ranked } from "../fuse.ts";

/** Vectors of one allocation. */
const BLOCK = 4096;
/** So many times the candidates that are wanted are compared exactly: eight bits rank them nearly, not quite. */
const MARGIN = 4;
const LARGEST = 127;
/** Entries of deleted passages stay until there are as many as half of the others. */
const MOST_DEAD = 0.5;
const SOME_DEAD = 1000;

interface Block {
  /** What a number of the vector is to be multiplied with. */
  scales: Float32Array;
  numbers: Int8Array;
}

interface VectorRow {
  id: number;
  seq: number;
  doc: number;
  generation: number;
  vector: Uint8Array;
}

const floatsOf = (bytes: Uint8Array): Float32Array => new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] as number) * (b[i] as number);
  return sum;
}

/** Keeps the best so many, without sorting all. */
function keepBest(best: Ranked[], limit: number, seq: number, score: number): void {
  if (best.length === limit && score <= (best.at(-1)?.score ?? -Infinity)) return;
  let at = best.length;
  while (at > 0 && (best[at - 1]?.score ?? 0) < score) at--;
  best.splice(at, 0, { seq, score });
  if (best.length > limit) best.pop();
}

/**
 * The vectors of one model in memory, a byte for each number: reading them from the database for each question takes ten
 * times as long as comparing them. What was added since the last question is read before the next one.
 */
export class Vectors {
  readonly #sql: Statements;
  #model = "";
  #dimension = 0;
  #last = 0;
  #blocks: Block[] = [];
  #seqs: number[] = [];
  #docs: number[] = [];
  #generations: number[] = [];

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  #reset(model: string, dimension: number): void {
    this.#model = model;
    this.#dimension = dimension;
    this.#last = 0;
    this.#blocks = [];
    this.#seqs = [];
    this.#docs = [];
    this.#generations = [];
  }

  #add({ seq, doc, generation, vector }: VectorRow): void {
    const at = this.#seqs.length;
    const slot = at % BLOCK;
    if (slot === 0) this.#blocks.push({ scales: new Float32Array(BLOCK), numbers: new Int8Array(BLOCK * this.#dimension) });
    const block = this.#blocks.at(-1) as Block;
    const floats = floatsOf(vector);
    const { numbers, scales } = block;
    let most = 0;
    for (let i = 0; i < floats.length; i++) most = Math.max(most, Math.abs(floats[i] as number));
    const scale = most / LARGEST || 1;
    const factor = 1 / scale;
    const from = slot * this.#dimension;
    scales[slot] = scale;
    for (let i = 0; i < floats.length; i++) numbers[from + i] = Math.round((floats[i] as number) * factor);
    this.#seqs.push(seq);
    this.#docs.push(doc);
    this.#generations.push(generation);
  }

  #catchUp(model: string, dimension: number): void {
    const live = this.#sql.get<{ n: number }>("SELECT count(*) AS n FROM vectors")?.n ?? 0;
    const tooManyDead = this.#seqs.length > live * (1 + MOST_DEAD) + SOME_DEAD;
    if (model !== this.#model || dimension !== this.#dimension || tooManyDead) this.#reset(model, dimension);
    const text = `SELECT v.id AS id, v.seq AS seq, c.doc AS doc, c.generation AS generation, v.vector AS vector
      FROM vectors v JOIN chunks c ON c.seq = v.seq WHERE v.id > ? AND v.model = ? AND v.dimension = ? ORDER BY v.id`;
    for (const row of this.#sql.db.prepare(text).iterate(this.#last, model, dimension) as Iterable<unknown> as Iterable<VectorRow>) {
      this.#add(row);
      this.#last = row.id;
    }
  }

  /**
   * The passages whose vectors are nearest, best first.
   * `visible`: which generation of which document may be found; all else is not looked at.
   */
  nearest(visible: ReadonlyMap<number, number>, model: string, vector: Float32Array, limit: number): Ranked[] {
    this.#catchUp(model, vector.length);
    const near: Ranked[] = [];
    for (let at = 0; at < this.#seqs.length; at++) {
      if (visible.get(this.#docs[at] as number) !== this.#generations[at]) continue;
      const { scales, numbers } = this.#blocks[Math.floor(at / BLOCK)] as Block;
      const slot = at % BLOCK;
      const from = slot * vector.length;
      let sum = 0;
      for (let i = 0; i < vector.length; i++) sum += (vector[i] as number) * (numbers[from + i] as number);
      keepBest(near, limit * MARGIN, this.#seqs[at] as number, sum * (scales[slot] as number));
    }
    const best: Ranked[] = [];
    for (const { seq } of near) {
      const row = this.#sql.get<{ vector: Uint8Array }>("SELECT vector FROM vectors WHERE seq = ? AND model = ?", seq, model);
      if (row) keepBest(best, limit, seq, dot(floatsOf(row.vector), vector));
    }
    return best;
  }
}
