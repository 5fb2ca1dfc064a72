import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Snapshot } from "../intake/types.ts";
import { chooseFixtureName, getFixtureFolder } from "./fixture-files.ts";
import { recordFixture } from "./fixture-record.ts";
import { renderFixture } from "./fixture.ts";
import type { ProposalSample } from "./proposal-samples.ts";
import type { ProposedFixture } from "./proposal-types.ts";

interface NewFile {
  file: string;
  text: string;
}

/** The fixtures of a proposal, which are written nowhere yet. */
export interface MadeFixtures {
  files: NewFile[];
  fixtures: ProposedFixture[];
  notes: string[];
}

/** Makes a fixture of each event, with what the mappings do once the proposed one is live. */
export async function makeFixtures(
  samples: readonly ProposalSample[],
  snapshot: Snapshot,
): Promise<MadeFixtures> {
  const made: MadeFixtures = { files: [], fixtures: [], notes: [] };
  const taken = new Set<string>();
  for (const { event } of samples) {
    const recorded = await recordFixture(event, snapshot, {});
    if (recorded.changedBy) {
      made.notes.push(
        `${event.id} has no fixture: masking ${recorded.changedBy.join(", ")} changes what the mappings do (\`rouse fixtures add\`)`,
      );
      continue;
    }
    const folder = getFixtureFolder(snapshot.config.hooks.testsDir, event.path);
    const { expect } = recorded.file;
    const file = join(
      folder,
      `${chooseFixtureName(folder, expect.mapping ?? expect.outcome, taken)}.json5`,
    );
    taken.add(file);
    made.files.push({ file, text: renderFixture(recorded.file) });
    made.fixtures.push({
      file,
      eventId: event.id,
      outcome: expect.outcome,
      mapping: expect.mapping ?? null,
    });
  }
  return made;
}

/** Writes the fixtures of a proposal. No file that is there is changed. Returns why files could not be written. */
export async function writeFixtures(fixtures: readonly NewFile[]): Promise<string[]> {
  const problems: string[] = [];
  for (const { file, text } of fixtures) {
    try {
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, text, { flag: "wx" });
    } catch (error) {
      problems.push(
        `${file} cannot be written (${(error as NodeJS.ErrnoException).code ?? "error"})`,
      );
    }
  }
  return problems;
}
