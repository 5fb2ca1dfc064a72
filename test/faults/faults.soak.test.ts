import { expect, it } from "vitest";
import { describePostgres } from "../store/postgres.ts";
import { runProgram } from "./program.ts";

it("keeps its promises through 1,000 seeds of faults on SQLite", { timeout: 1_200_000 }, async () => {
  const { isClean, output } = await runProgram("--seeds", "1000");
  expect(isClean, output).toBe(true);
});

describePostgres("on PostgreSQL", () => {
  it("keeps its promises through 50 seeds of faults", { timeout: 1_800_000 }, async () => {
    const { isClean, output } = await runProgram("--seeds", "50", "--store", "postgres");
    expect(isClean, output).toBe(true);
  });
});
