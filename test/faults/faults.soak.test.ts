import { expect, it } from "vitest";
import { describePostgres } from "../store/postgres.ts";
import { renderFailure, runSeeds } from "./seeds.ts";

it("keeps its promises through 1,000 seeds of faults on SQLite", { timeout: 1_200_000 }, async () => {
  const failures = await runSeeds({ count: 1000 });
  expect(failures.map(renderFailure)).toEqual([]);
});

describePostgres("on PostgreSQL", () => {
  it("keeps its promises through 50 seeds of faults", { timeout: 1_800_000 }, async () => {
    const failures = await runSeeds({ count: 50, store: "postgres" });
    expect(failures.map(renderFailure)).toEqual([]);
  });
});
