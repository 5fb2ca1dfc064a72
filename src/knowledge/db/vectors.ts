import type { Statements } from "../../store/sqlite/statements.ts";
import {
  type Ranked,
  dot,
  toFloats,
  keepBest,
  VectorMemory,
  type KnownVector,
} from "../ranking.ts";

/** So many times the candidates that are wanted are compared exactly: eight bits rank them nearly, not quite. */
export const MARGIN = 4;
/**
 * The vectors of one model in memory: reading them from the database for each question takes ten times as long as
 * comparing them. What was added since the last question is read before the next one.
 */
export class Vectors {
  readonly #sql: Statements;
  #memory = new VectorMemory();

  constructor(sql: Statements) {
    this.#sql = sql;
  }

  #catchUp(model: string, dimension: number): void {
    const live = this.#sql.get<{ n: number }>("SELECT count(*) AS n FROM vectors")?.n ?? 0;
    if (!this.#memory.isFor(model, dimension) || this.#memory.isMostlyDead(live))
      this.#memory = new VectorMemory(model, dimension);
    const text = `SELECT v.id AS id, v.seq AS seq, c.doc AS doc, c.generation AS generation, v.vector AS vector
      FROM vectors v JOIN chunks c ON c.seq = v.seq WHERE v.id > ? AND v.model = ? AND v.dimension = ? ORDER BY v.id`;
    const rows = this.#sql.db
      .prepare(text)
      .iterate(this.#memory.last, model, dimension) as Iterable<unknown>;
    for (const row of rows as Iterable<KnownVector>) this.#memory.add(row);
  }

  /**
   * The passages whose vectors are nearest, best first.
   * `visible`: which generation of which document may be found; all else is not looked at.
   */
  nearest(
    visible: ReadonlyMap<number, number>,
    model: string,
    vector: Float32Array,
    limit: number,
  ): Ranked[] {
    this.#catchUp(model, vector.length);
    const best: Ranked[] = [];
    for (const { seq } of this.#memory.near(visible, vector, limit * MARGIN)) {
      const row = this.#sql.get<{ vector: Uint8Array }>(
        "SELECT vector FROM vectors WHERE seq = ? AND model = ?",
        seq,
        model,
      );
      if (row) keepBest(best, limit, seq, dot(toFloats(row.vector), vector));
    }
    return best;
  }
}
