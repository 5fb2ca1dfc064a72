import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { afterAll, beforeAll, expect, it } from "vitest";
import { SYSTEM_CLOCK } from "../../src/mapping/jsonata/cpu-time.ts";
import { compileExpression, type JsonataRunner } from "../../src/mapping/jsonata/expression.ts";
import { scale } from "../soak.ts";

/** Keeps a core busy. */
const SPIN = "for (let n = 0; ; n++) Math.sqrt(n);";
const EVALUATIONS = scale(2_000, 50_000);
const PLAIN = [
  "$uppercase(a) & '!'",
  "$count(rows[$ > 2])",
  "$join(rows.$string(), ', ')",
  "$sum(rows) > 10 and $contains(a, 'x')",
];
const scope = {
  payload: { a: "xyz", rows: [1, 2, 3, 4, 5, 6, 7, 8] },
  headers: {},
  query: {},
  path: "p",
  now: 0,
};

const spinning: Worker[] = [];
beforeAll(() => {
  // Twice as many as there are cores: this thread stands still time and again.
  for (let n = 0; n < 2 * availableParallelism(); n++)
    spinning.push(new Worker(SPIN, { eval: true }));
});
afterAll(async () => {
  await Promise.all(spinning.map((worker) => worker.terminate()));
});

/** An expression with how often it was evaluated outside this process, and how often its processor time was read here. */
function compile(source: string) {
  const counted = { outside: 0, readings: 0, evaluate: async (): Promise<unknown> => undefined };
  const runner: JsonataRunner = async () => {
    counted.outside++;
    return { ok: true, value: null };
  };
  const cpu = (): number => {
    counted.readings++;
    return SYSTEM_CLOCK.cpu();
  };
  const compiled = compileExpression(source, { runner, clock: { ...SYSTEM_CLOCK, cpu } });
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
    let evaluated = 0;
    // Until the machine was busy: a pause longer than the limit of processor time shows that.
    while (evaluated < EVALUATIONS || longest <= 10) {
      const start = performance.now();
      for (const expression of plain) await expression.evaluate();
      longest = Math.max(longest, performance.now() - start);
      evaluated++;
    }
    // A garbage collection may interrupt an evaluation, which is then repeated outside. An expression that has left the process
    // would be evaluated outside from then on.
    const before = plain.map(({ outside }) => outside);
    expect(Math.max(...before)).toBeLessThan(evaluated / 50);
    for (const expression of plain) await expression.evaluate();
    expect(plain.map(({ outside }) => outside)).toEqual(before);

    const long = compile(
      "($count := function($n) { $n > 200000 ? $n : $count($n + 1) }; $count(0))",
    );
    const readings: boolean[] = [];
    for (let n = 0; n < 4; n++) {
      const earlier = long.readings;
      await long.evaluate();
      readings.push(long.readings > earlier);
    }
    expect(long.outside).toBe(4);
    // The second offence excludes it: from then on it takes no processor time here.
    expect(readings).toEqual([true, true, false, false]);
  },
);
