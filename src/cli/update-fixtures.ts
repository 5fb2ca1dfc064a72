import { relative } from "node:path";
import { editConfigFile } from "../config/edit.ts";
import type { FixtureResult } from "../workbench/fixture-run.ts";
import type { CliIo } from "./io.ts";

async function ask({ fixture }: FixtureResult, io: CliIo): Promise<boolean> {
  const answer = await io.prompts?.select({
    message: `${relative(io.cwd, fixture.file)}: expect this from now on?`,
    options: [
      { value: "no", label: "No, leave the fixture" },
      { value: "yes", label: "Yes, change the fixture" },
    ],
  });
  return answer === "yes";
}

/**
 * Writes what the mappings make into the fixtures; the rest of each file stays as it is.
 * @param isAgreed do not ask.
 * @returns how many were changed.
 */
export async function updateFixtures(
  failed: readonly FixtureResult[],
  isAgreed: boolean,
  io: CliIo,
): Promise<number> {
  let changed = 0;
  for (const result of failed) {
    const { file, reply } = result.fixture;
    if (file.endsWith(".http")) {
      io.err(`${relative(io.cwd, file)}: a recording; change its comments by hand\n`);
      continue;
    }
    if (!isAgreed && !(await ask(result, io))) continue;
    await editConfigFile(file, [
      { path: ["expect"], value: { ...result.actual, ...(reply && { reply }) } },
    ]);
    io.err(`${relative(io.cwd, file)}: changed\n`);
    changed++;
  }
  return changed;
}
