import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import type { Snapshot } from "../intake/types.ts";
import type { Draft } from "./drafts.ts";
import { chooseFixtureName, getFixtureFolder } from "./fixture-files.ts";
import { recordFixture } from "./fixture-record.ts";
import { renderFixture } from "./fixture.ts";
import type { ProposalSample } from "./proposal-samples.ts";
import type { Proposal, ProposedFixture } from "./proposal-types.ts";
import { renderFilePatch } from "./unified-diff.ts";

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

/** Makes a fixture of each event, with what the mappings do with the draft in place. */
export async function makeFixtures(
  samples: readonly ProposalSample[],
  draft: string,
  snapshot: Snapshot,
): Promise<MadeFixtures> {
  const made: MadeFixtures = { files: [], fixtures: [], notes: [] };
  const taken = new Set<string>();
  for (const { event } of samples) {
    const recorded = await recordFixture(event, snapshot, {});
    if (recorded.changedBy) {
      made.notes.push(
        `${event.id} has no fixture: masking ${recorded.changedBy.join(", ")} changes what the mappings do (\`rouse test add\`)`,
      );
      continue;
    }
    const folder = getFixtureFolder(snapshot.config.hooks.testsDir, event.path);
    const { expect, ...rest } = recorded.file;
    const file = join(
      folder,
      `${chooseFixtureName(folder, expect.mapping ?? expect.outcome, taken)}.json5`,
    );
    taken.add(file);
    made.files.push({ file, text: renderFixture({ ...rest, draft, expect }) });
    made.fixtures.push({
      file,
      eventId: event.id,
      outcome: expect.outcome,
      mapping: expect.mapping ?? null,
    });
  }
  return made;
}

/**
 * Writes the draft, then its fixtures. No file that is there is changed.
 * @param top the folder from which the patch names files.
 * @returns null, or why files could not be written, with those as a patch.
 */
export async function writeProposal(
  draft: Pick<Draft, "file" | "text">,
  fixtures: readonly NewFile[],
  top: string,
): Promise<Proposal["unwritten"]> {
  const unwritten: string[] = [];
  let reason = "";
  for (const { file, text } of [draft, ...fixtures]) {
    try {
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, text, { flag: "wx" });
    } catch (error) {
      reason ||= `${file} cannot be written (${(error as NodeJS.ErrnoException).code ?? "error"})`;
      unwritten.push(
        renderFilePatch(relative(top, file).split(sep).join("/"), { before: null, after: text }),
      );
    }
  }
  return unwritten.length === 0 ? null : { reason, patch: unwritten.join("") };
}
