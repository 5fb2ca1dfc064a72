import { expect, it } from "vitest";
import { scale } from "../soak.ts";
import { runProgram } from "./program.ts";

const SEEDS = scale(40, 300);

it(
  `keeps its promises through ${SEEDS} seeds of all faults on SQLite`,
  { timeout: 600_000 },
  async () => {
    const { isClean, output } = await runProgram("--seeds", String(SEEDS));
    expect(isClean, output).toBe(true);
  },
);
