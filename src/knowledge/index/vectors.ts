import { places, type DocumentCatalog } from "../catalog/catalog.ts";
import {
  dot,
  keepBest,
  toFloats,
  VectorMemory,
  type KnownVector,
  type Ranked,
} from "../ranking.ts";

/** Rows of one look: some megabytes of vectors. */
const PAGE = 1000;
/** So many times the candidates that are wanted are compared exactly: eight bits rank them nearly, not quite. */
const MARGIN = 4;
/** The interval of checks whether most vectors in memory are of deleted passages. */
const COUNT_EVERY_MS = 5 * 60_000;

/** Bytes on a boundary where numbers of 32 bits may begin. */
const aligned = (bytes: Uint8Array): Uint8Array =>
  bytes.byteOffset % 4 === 0 ? bytes : Uint8Array.from(bytes);

/**
 * The vectors of one model in memory: reading them from the database for each question takes ten times as long as
 * comparing them. What was added since the last question is read before the next one.
 */
export class Vectors {
  readonly #catalog: DocumentCatalog;
  #counted = 0;
  #memory = new VectorMemory();
  #reading: Promise<void> = Promise.resolve();

  constructor(catalog: DocumentCatalog) {
    this.#catalog = catalog;
  }

  async #isMostlyDead(): Promise<boolean> {
    if (performance.now() - this.#counted < COUNT_EVERY_MS) return false;
    this.#counted = performance.now();
    const [row] = await this.#catalog.query<{ n: number }>(
      "SELECT count(*) AS n FROM knowledge_vectors",
    );
    return this.#memory.isMostlyDead(row?.n ?? 0);
  }

  async #read(model: string, dimension: number): Promise<void> {
    if (!this.#memory.isFor(model, dimension) || (await this.#isMostlyDead()))
      this.#memory = new VectorMemory(model, dimension);
    for (;;) {
      const rows = await this.#catalog.query<KnownVector>(
        `SELECT v.id, v.seq, p.doc, p.generation, v.vector FROM knowledge_vectors v JOIN knowledge_passages p ON p.seq = v.seq
          WHERE v.id > $1 AND v.model = $2 AND v.dimension = $3 ORDER BY v.id LIMIT ${PAGE}`,
        [this.#memory.last, model, dimension],
      );
      for (const row of rows) this.#memory.add({ ...row, vector: aligned(row.vector) });
      if (rows.length < PAGE) return;
    }
  }

  /** Reads what was added since the last question; one question after the other, since they share the memory. */
  #catchUp(model: string, dimension: number): Promise<void> {
    const read = this.#reading.then(() => this.#read(model, dimension));
    this.#reading = read.catch(() => undefined);
    return read;
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
    if (!this.#memory.isFor(model, vector.length)) return [];
    const near = this.#memory.near(visible, vector, limit * MARGIN).map(({ seq }) => seq);
    if (near.length === 0) return [];
    const rows = await this.#catalog.query<{ seq: number; vector: Uint8Array }>(
      `SELECT seq, vector FROM knowledge_vectors WHERE model = $1 AND dimension = $2 AND seq IN ${places(near.length, 3)} ORDER BY seq`,
      [model, vector.length, ...near],
    );
    const best: Ranked[] = [];
    for (const row of rows)
      keepBest(best, limit, row.seq, dot(toFloats(aligned(row.vector)), vector));
    return best;
  }
}
