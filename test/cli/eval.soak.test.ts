import { afterEach, expect, it } from "vitest";
import { scale } from "../soak.ts";
import { all, createEvalWorld, json, recordCases, steady, type EvalWorld } from "./eval-world.ts";

const RUNS = scale(15, 50);

let world: EvalWorld | undefined;
afterEach(() => world?.close());

it(`evaluates ${RUNS} runs that a gateway recorded, with three calls each: the worse prompt is shown as worse, and twice the same`, async () => {
  world = await createEvalWorld();
  const { cli, tools, model } = world;
  await recordCases(world, all(RUNS), (id) => ({ contains: [`costs ${id * 10}`] }));
  await cli.write("worse.md", "Sum up each order in one word.");
  const evaluate = (concurrency: number) =>
    cli.rouse(["eval", "--prompt", "worse.md", "--json", "--concurrency", `${concurrency}`]);
  const [first, second] = [await evaluate(8), await evaluate(3)];
  expect([first.code, first.err]).toEqual([1, ""]);
  const report = json(first.out);
  expect(report.sums).toMatchObject({
    before: { runs: RUNS, passed: RUNS },
    after: { runs: RUNS, passed: 0 },
  });
  expect(report.cases.every(({ before }) => before?.runs[0]?.calls.length === 3)).toBe(true);
  expect(steady(json(second.out))).toEqual(steady(report));
  expect(model.requests).toHaveLength(2 * RUNS * 2 * 4);
  expect(tools.requests).toBe(0);
}, 180_000);
