import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, it } from "vitest";
import { compileExpression, type JsonataRunner } from "../../src/mapping/expression.ts";

/** Keeps a core busy. */
const SPIN = "for (let n = 0; ; n++) Math.sqrt(n);";
const EVALUATIONS = 20_000;
const PLAIN = ["$uppercase(a) & '!'", "$count(rows[$ > 2])", "$join(rows.$string(), ', ')", "$sum(rows) > 10 and $contains(a, 'x')"];
const scope = { payload: { a: "xyz", rows: [1, 2, 3, 4, 5, 6, 7, 8] }, headers: {}, query: {}, path: "p", now: 0 };

const spinning: Worker[] = [];
beforeAll(() => {
  // Twice as many as there are cores: this thread stands still time and again.
  for (let n = 0; n < 2 * availableParallelism(); n++) spinning.push(new Worker(SPIN, { eval: true }));
});
afterAll(async () => {
  await Promise.all(spinning.map((worker) => worker.terminate()));
});

/** An expression with how often it was evaluated outside this process. */
function compile(source: string) {
  const counted = { outside: 0, evaluate: async (): Promise<unknown> => undefined };
  const runner: JsonataRunner = async () => {
    counted.outside++;
    return { ok: true, value: null };
  };
  const compiled = compileExpression(source, { runner });
  if (!compiled.ok) throw new Error(compiled.message);
  counted.evaluate = async () => compiled.expression.evaluate(scope);
  return counted;
}

it(
  "plain expressions stay in the process while all cores are busy, and one that works for long leaves it",
  { timeout: 300_000 },
  async () => {
    const plain = PLAIN.map(compile);
    let longest = 0;
    for (let n = 0; n < EVALUATIONS; n++) {
      const start = performance.now();
      for (const expression of plain) await expression.evaluate();
      longest = Math.max(longest, performance.now() - start);
    }
    // What a collection of garbage cuts off is repeated outside. Expressions that have left are evaluated outside from then on.
    const before = plain.map(({ outside }) => outside);
    expect(Math.max(...before)).toBeLessThan(EVALUATIONS / 1000);
    for (const expression of plain) await expression.evaluate();
    expect(plain.map(({ outside }) => outside)).toEqual(before);
    // Otherwise the machine was not busy, and nothing is proven: one pause is longer than the limit of processor time.
    expect(longest).toBeGreaterThan(10);

    const long = compile("($count := function($n) { $n > 200000 ? $n : $count($n + 1) }; $count(0))");
    const times: number[] = [];
    for (let n = 0; n < 4; n++) {
      const used = process.threadCpuUsage();
      await long.evaluate();
      const { user, system } = process.threadCpuUsage(used);
      times.push((user + system) / 1000);
    }
    expect(long.outside).toBe(4);
    expect(Math.min(times[0] ?? 0, times[1] ?? 0)).toBeGreaterThan(9);
    // The second offence excludes it: from then on it takes no processor time here.
    expect(Math.max(...times.slice(2))).toBeLessThan(5);
  },
);
