import { places, type DocumentCatalog } from "../catalog/catalog.ts";
import { keepBest, type Ranked } from "../ranking.ts";

/** Rows of one look: some megabytes of vectors. */
const PAGE = 1000;
/** So many times the candidates that are wanted are compared exactly: eight bits rank them nearly, not quite. */
const MARGIN = 4;
/** The interval of checks whether most vectors in memory are of deleted passages. */
const COUNT_EVERY_MS = 5 * 60_000;
/** Vectors of deleted passages stay in memory until they are as many as half of the vectors of the database. */
const MAX_DEAD_SHARE = 0.5;
const SOME_DEAD = 1000;
const LARGEST = 127;

/** A passage that has a vector. */
interface Known {
  id: number;
  seq: number;
  doc: number;
  generation: number;
}

/** Its vector, a byte for each number, and their factor. */
interface Small extends Known {
  numbers: Int8Array;
  scale: number;
}

/** Vectors of one model and length in memory. */
interface Memory {
  model: string;
  dimension: number;
  passages: Small[];
}

/** The numbers of a vector, from bytes that may begin where numbers of 32 bits may not. */
function toFloats(bytes: Uint8Array): Float32Array {
  const { buffer, byteOffset } = bytes.byteOffset % 4 === 0 ? bytes : Uint8Array.from(bytes);
  return new Float32Array(buffer, byteOffset, bytes.byteLength / 4);
}

function toSmall(floats: Float32Array): Pick<Small, "numbers" | "scale"> {
  const most = floats.reduce((before, value) => Math.max(before, Math.abs(value)), 0);
  const scale = most / LARGEST || 1;
  return { scale, numbers: new Int8Array(floats.map((value) => Math.round(value / scale))) };
}

function dot(a: Float32Array, b: Float32Array | Int8Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] as number) * (b[i] as number);
  return sum;
}

/**
 * The vectors of one model in memory: reading them from the database for each question takes ten times as long as
 * comparing them. What was added since the last question is read before the next one.
 */
export class Vectors {
  readonly #catalog: DocumentCatalog;
  #counted = 0;
  #memory: Memory = { model: "", dimension: 0, passages: [] };
  #reading: Promise<void> = Promise.resolve();

  constructor(catalog: DocumentCatalog) {
    this.#catalog = catalog;
  }

  #isFor(model: string, dimension: number): boolean {
    return model === this.#memory.model && dimension === this.#memory.dimension;
  }

  async #isMostlyDead(): Promise<boolean> {
    if (performance.now() - this.#counted < COUNT_EVERY_MS) return false;
    this.#counted = performance.now();
    const count = "SELECT count(*) AS n FROM knowledge_vectors";
    const [row] = await this.#catalog.query<{ n: number }>(count);
    return this.#memory.passages.length > (row?.n ?? 0) * (1 + MAX_DEAD_SHARE) + SOME_DEAD;
  }

  async #read(model: string, dimension: number): Promise<void> {
    if (!this.#isFor(model, dimension) || (await this.#isMostlyDead()))
      this.#memory = { model, dimension, passages: [] };
    for (;;) {
      const rows = await this.#catalog.query<Known & { vector: Uint8Array }>(
        `SELECT v.id, v.seq, p.doc, p.generation, v.vector FROM knowledge_vectors v JOIN knowledge_passages p ON p.seq = v.seq
          WHERE v.id > $1 AND v.model = $2 AND v.dimension = $3 ORDER BY v.id LIMIT ${PAGE}`,
        [this.#memory.passages.at(-1)?.id ?? 0, model, dimension],
      );
      for (const { vector, ...passage } of rows)
        this.#memory.passages.push({ ...passage, ...toSmall(toFloats(vector)) });
      if (rows.length < PAGE) return;
    }
  }

  /** Reads what was added since the last question; one question after the other, since they share the memory. */
  #catchUp(model: string, dimension: number): Promise<void> {
    const read = this.#reading.then(() => this.#read(model, dimension));
    this.#reading = read.catch(() => undefined);
    return read;
  }

  /** The passages whose vectors are nearly the nearest, best first. */
  #near(visible: ReadonlyMap<number, number>, vector: Float32Array, limit: number): Ranked[] {
    const near: Ranked[] = [];
    for (const { seq, doc, generation, numbers, scale } of this.#memory.passages)
      if (visible.get(doc) === generation) keepBest(near, limit, seq, dot(vector, numbers) * scale);
    return near;
  }

  /**
   * The passages whose vectors are nearest, best first.
   * `visible`: which generation of which document may be found; all else is not looked at.
   */
  async nearest(
    visible: ReadonlyMap<number, number>,
    model: string,
    vector: Float32Array,
    limit: number,
  ): Promise<Ranked[]> {
    await this.#catchUp(model, vector.length);
    if (!this.#isFor(model, vector.length)) return [];
    const near = this.#near(visible, vector, limit * MARGIN).map(({ seq }) => seq);
    if (near.length === 0) return [];
    const rows = await this.#catalog.query<{ seq: number; vector: Uint8Array }>(
      `SELECT seq, vector FROM knowledge_vectors WHERE model = $1 AND dimension = $2 AND seq IN ${places(near.length, 3)} ORDER BY seq`,
      [model, vector.length, ...near],
    );
    const best: Ranked[] = [];
    for (const row of rows) keepBest(best, limit, row.seq, dot(toFloats(row.vector), vector));
    return best;
  }
}
