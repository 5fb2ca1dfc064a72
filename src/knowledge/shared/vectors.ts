import type { Sql, SqlDatabase } from "../../store/sql.ts";
import { MARGIN } from "../db/vectors.ts";
import {
  type Ranked,
  dot,
  toFloats,
  keepBest,
  VectorMemory,
  type KnownVector,
} from "../ranking.ts";

/** Rows of one look: some megabytes of vectors. */
const PAGE = 1000;
/** How often it is looked whether most of what is in memory is of deleted passages. */
const COUNT_EVERY_MS = 5 * 60_000;

/** Bytes on a boundary where numbers of 32 bits may begin. */
const aligned = (bytes: Uint8Array): Uint8Array => Uint8Array.from(bytes);

/** The vectors of one model in this gateway's memory, for a PostgreSQL that cannot compare them itself. */
export class ScannedVectors {
  readonly #db: SqlDatabase;
  #counted = 0;
  #memory = new VectorMemory();
  #reading: Promise<void> = Promise.resolve();

  constructor(db: SqlDatabase) {
    this.#db = db;
  }

  async #isMostlyDead(): Promise<boolean> {
    if (performance.now() - this.#counted < COUNT_EVERY_MS) return false;
    this.#counted = performance.now();
    const [row] = await this.#db.query<{ n: number }>(
      "SELECT count(*) AS n FROM knowledge_vectors",
    );
    return this.#memory.isMostlyDead(row?.n ?? 0);
  }

  async #read(model: string, dimension: number): Promise<void> {
    if (!this.#memory.isFor(model, dimension) || (await this.#isMostlyDead())) {
      this.#counted = performance.now();
      this.#memory = new VectorMemory(model, dimension);
    }
    for (;;) {
      const rows = await this.#db.query<KnownVector>(
        `SELECT v.id, v.seq, c.doc, c.generation, v.vector FROM knowledge_vectors v JOIN knowledge_chunks c ON c.seq = v.seq
          WHERE v.id > $1 AND v.model = $2 AND v.dimension = $3 ORDER BY v.id LIMIT ${PAGE}`,
        [this.#memory.last, model, dimension],
      );
      for (const row of rows) this.#memory.add({ ...row, vector: aligned(row.vector) });
      if (rows.length < PAGE) return;
    }
  }

  /** Reads what was added since the last question; one question after the other, since they share the memory. */
  catchUp(model: string, dimension: number): Promise<void> {
    const read = this.#reading.then(() => this.#read(model, dimension));
    this.#reading = read.catch(() => undefined);
    return read;
  }

  /** The passages whose vectors are nearest, best first; only those of what is visible are looked at. */
  async nearest(
    sql: Sql,
    visible: ReadonlyMap<number, number>,
    model: string,
    vector: Float32Array,
    limit: number,
  ): Promise<Ranked[]> {
    if (!this.#memory.isFor(model, vector.length)) return [];
    const near = this.#memory.near(visible, vector, limit * MARGIN);
    const rows = await sql.query<{ seq: number; vector: Uint8Array }>(
      "SELECT seq, vector FROM knowledge_vectors WHERE seq = ANY($1::bigint[]) AND model = $2 AND dimension = $3 ORDER BY seq",
      [near.map(({ seq }) => seq), model, vector.length],
    );
    const best: Ranked[] = [];
    for (const row of rows)
      keepBest(best, limit, row.seq, dot(toFloats(aligned(row.vector)), vector));
    return best;
  }
}
