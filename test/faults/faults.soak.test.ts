import { expect, it } from "vitest";
import { scale } from "../soak.ts";
import { runProgram } from "./program.ts";

const SEEDS = scale(8, 300);

it.each([
  ["of all faults", ["--seeds", `${SEEDS}`]],
  ["that have found defects", ["--known"]],
])("faults: no promise is broken by seeds %s", { timeout: 600_000 }, async (_name, args) => {
  const { isClean, output } = await runProgram(...args);
  expect(isClean, output).toBe(true);
});
