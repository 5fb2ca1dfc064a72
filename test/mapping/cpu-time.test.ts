import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { CpuClock } from "../../src/mapping/jsonata/cpu-time.ts";
import {
  compileExpression,
  evaluateOutside,
  type JsonataRunner,
} from "../../src/mapping/jsonata/expression.ts";
import { createTransformPool } from "../../src/mapping/transforms/pool.ts";
import { confinedTo } from "./world.ts";

const scope = {
  payload: { a: "x", rows: [1, 2, 3, 4, 5, 6, 7, 8] },
  headers: {},
  query: {},
  path: "p",
  now: 0,
};
const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** A machine: `passes` and `works` are the milliseconds of time and of processor time for each look at the clock. */
function createMachine() {
  const machine = { wall: 0, cpu: 0, passes: 0, works: 0 };
  const clock: CpuClock = {
    wall() {
      machine.cpu += machine.works;
      return (machine.wall += machine.passes);
    },
    cpu: () => machine.cpu,
  };
  return Object.assign(machine, { clock });
}

/** An expression on a machine; `run` tells where it was evaluated: in this process, or outside. */
function onMachine(source = "$uppercase(a) & $count(rows[$ > 2])", machine = createMachine()) {
  const runner: JsonataRunner = async () => ({ ok: true, value: "outside" });
  const compiled = compileExpression(source, { runner, clock: machine.clock });
  if (!compiled.ok) throw new Error(compiled.message);
  const { expression } = compiled;
  const run = async (): Promise<string> => {
    const result = await expression.evaluate(scope);
    return result.ok && result.value === "outside" ? "outside" : "inside";
  };
  /** An evaluation that works all the time. */
  const offend = async (): Promise<string> => {
    Object.assign(machine, { passes: 6, works: 6 });
    const where = await run();
    Object.assign(machine, { passes: 0, works: 0 });
    machine.wall += SECOND;
    return where;
  };
  return { machine, run, offend };
}

describe("the processor time of an expression", () => {
  it("does not count time in which the machine was busy elsewhere or stood still", async () => {
    const { machine, run } = onMachine();
    Object.assign(machine, { passes: MINUTE, works: 0.1 });
    for (let i = 0; i < 5; i++) expect(await run()).toBe("inside");
  });

  it("ends an evaluation that uses too much of it, and repeats that one outside", async () => {
    const { offend, run } = onMachine();
    expect(await offend()).toBe("outside");
    expect(await run()).toBe("inside");
  });

  it("excludes an expression at the second offence within a minute, for a minute that doubles up to an hour", async () => {
    const { machine, offend, run } = onMachine();
    for (const minutes of [1, 2, 4, 8, 16, 32, 60, 60]) {
      await offend();
      expect(await run()).toBe("inside");
      await offend();
      const excluded = machine.wall - SECOND;
      expect(await run()).toBe("outside");
      machine.wall = excluded + minutes * MINUTE - SECOND;
      expect(await run()).toBe("outside");
      machine.wall = excluded + minutes * MINUTE + SECOND;
      expect(await run()).toBe("inside");
    }
  });

  it("forgets an offence after a minute", async () => {
    const { machine, offend, run } = onMachine();
    for (let i = 0; i < 4; i++) {
      await offend();
      machine.wall += MINUTE;
      expect(await run()).toBe("inside");
    }
  });

  it("takes two offences among many evaluations for collections of garbage", async () => {
    const { machine, offend, run } = onMachine();
    for (let i = 0; i < 4; i++) {
      await offend();
      machine.wall -= SECOND;
      for (let n = 0; n < 32; n++) expect(await run()).toBe("inside");
    }
    await offend();
    for (let n = 0; n < 31; n++) expect(await run()).toBe("inside");
    await offend();
    expect(await run()).toBe("outside");
  });

  it("counts one long step that meets no guard as an offence, though its result stands", async () => {
    const { machine, run } = onMachine("a in 'y'");
    const long = async (): Promise<string> => {
      // The step takes 30 ms, which only the look after it shows.
      const where = run();
      machine.wall += 30;
      machine.cpu += 30;
      return where;
    };
    expect([await long(), await long(), await run()]).toEqual(["inside", "inside", "outside"]);
  });

  it("is each evaluation's own, also for those that start together", async () => {
    const machine = createMachine();
    const [first, second] = [onMachine(undefined, machine), onMachine(undefined, machine)];
    // Each alone stays below the limit.
    Object.assign(machine, { passes: 0.7, works: 0.7 });
    const alone = await first.run();
    const before = machine.cpu;
    await second.run();
    expect(machine.cpu - before).toBeGreaterThan(5);
    expect([
      alone,
      ...(await Promise.all([first.run(), second.run(), first.run(), second.run()])),
    ]).toEqual(Array(5).fill("inside"));
    expect(await first.run()).toBe("inside");
  });

  it("ends an endless expression, here and outside", async () => {
    const endless = "($f := function($n) { $f($n + 1) }; $f(0))";
    const machine = createMachine();
    const compiled = compileExpression(endless, { clock: machine.clock });
    if (!compiled.ok) throw new Error(compiled.message);
    Object.assign(machine, { passes: 0.5, works: 0.5 });
    const tooLong = { ok: false, message: "the expression took too long" };
    expect(await compiled.expression.evaluate(scope)).toEqual(tooLong);
    expect(await evaluateOutside(endless, {}, 0, 20)).toMatchObject(tooLong);
  });
});

it("an evaluation that waits for what never comes does not hold up others", async () => {
  const hangs = compileExpression("{ 'then': /x/ }");
  const other = compileExpression("a & a");
  if (!hangs.ok || !other.ok) throw new Error("not compiled");
  void hangs.expression.evaluate(scope);
  expect(await other.expression.evaluate(scope)).toEqual({ ok: true, value: "xx" });
  expect(await other.expression.evaluate(scope)).toEqual({ ok: true, value: "xx" });
});

it("a call outside does not fail because the machine stood still", async () => {
  const dir = mkdtempSync(join(tmpdir(), "rouse-stall-"));
  const pool = createTransformPool(process.env);
  const file = join(dir, "quick.mjs");
  const built = "export default () => process.pid;";
  writeFileSync(file, built);
  const module = { file, version: "1", built, exportName: undefined };
  const call = { owner: "m", ...module, input: {}, ...confinedTo(dir) };
  const first = await pool.runModule({ ...call, timeoutMs: 5000 });
  if (!first.ok) throw new Error(first.reason);
  const pid = first.value as number;
  // Both processes stop, for longer than the call may take.
  process.kill(pid, "SIGSTOP");
  const answer = pool.runModule({ ...call, timeoutMs: 200 });
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 450);
  process.kill(pid, "SIGCONT");
  expect(await answer).toEqual({ ok: true, value: pid });
  await pool.close();
  rmSync(dir, { recursive: true });
});
