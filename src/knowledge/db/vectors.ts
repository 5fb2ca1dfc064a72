import type { Statements } from "../../store/sqlite/statements.ts";
import type { Ranked } from "../rank-fusion.ts";
import { dot, toFloats, keepBest, VectorMemory, type KnownVector } from "../vector-memory.ts";

/** So many times the candidates that are wanted are compared exactly: eight bits rank them nearly, not quite. */
export const MARGIN = 4;
/** Entries of deleted passages stay until there are as many as half of the others. */
const MAX_DEAD_SHARE = 0.5;
const SOME_DEAD = 1000;

/**
 * The vectors of one model in memory: reading them from the database for each question takes ten times as long as
 * comparing them. What was added since the last question is read before the next one.
 */
export class Vectors {
  readonly #sql: Statements;
  #model = "";
  #dimension = 0;
  #last = 0;
  #memory = new VectorMemory(0);

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  #catchUp(model: string, dimension: number): void {
    const live = this.#sql.get<{ n: number }>("SELECT count(*) AS n FROM vectors")?.n ?? 0;
    const tooManyDead = this.#memory.size > live * (1 + MAX_DEAD_SHARE) + SOME_DEAD;
    if (model !== this.#model || dimension !== this.#dimension || tooManyDead) {
      this.#model = model;
      this.#dimension = dimension;
      this.#last = 0;
      this.#memory = new VectorMemory(dimension);
    }
    const text = `SELECT v.id AS id, v.seq AS seq, c.doc AS doc, c.generation AS generation, v.vector AS vector
      FROM vectors v JOIN chunks c ON c.seq = v.seq WHERE v.id > ? AND v.model = ? AND v.dimension = ? ORDER BY v.id`;
    const rows = this.#sql.db.prepare(text).iterate(this.#last, model, dimension) as Iterable<unknown>;
    for (const row of rows as Iterable<KnownVector & { id: number }>) {
      this.#memory.add(row);
      this.#last = row.id;
    }
  }

  /**
   * The passages whose vectors are nearest, best first.
   * `visible`: which generation of which document may be found; all else is not looked at.
   */
  nearest(visible: ReadonlyMap<number, number>, model: string, vector: Float32Array, limit: number): Ranked[] {
    this.#catchUp(model, vector.length);
    const best: Ranked[] = [];
    for (const { seq } of this.#memory.near(visible, vector, limit * MARGIN)) {
      const row = this.#sql.get<{ vector: Uint8Array }>("SELECT vector FROM vectors WHERE seq = ? AND model = ?", seq, model);
      if (row) keepBest(best, limit, seq, dot(toFloats(row.vector), vector));
    }
    return best;
  }
}
