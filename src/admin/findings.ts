import type { Issue } from "../core/errors.ts";
import type { AdminDeps } from "./types.ts";
import type { Finding, FoundDraft, FoundTrial } from "./watch-views.ts";

/** The mapping that a field of the config belongs to: the longest place that the path begins with. */
function findOwner(path: string, mappings: readonly { id: string; at: string }[]): string | null {
  const owners = mappings.filter(
    ({ at }) => path.startsWith(at) && /^(?:[.[]|$)/.test(path.slice(at.length)),
  );
  return owners.toSorted((one, other) => other.at.length - one.at.length)[0]?.id ?? null;
}

/** Of a draft what its trial has found, why it cannot be made live, or that it waits. */
function toDraftFinding({ name, problem }: FoundDraft, trials: readonly FoundTrial[]): Finding {
  const trial = trials.find(({ draft }) => draft === name);
  const tried = trial
    ? `would have taken ${trial.matched} of ${trial.events} hooks and made ${trial.runs} runs${trial.ended ? `; the trial has ended: ${trial.ended.reason}` : ""}`
    : "is not on trial";
  const message = problem === null ? tried : `cannot be made live: ${problem}`;
  return { from: "draft", path: name, message, mapping: null, file: null, line: null };
}

/** Lists what lint, the shapes of recorded bodies and drafts have found, and the problems of the config on disk. */
export async function listFindings(
  { snapshot, recorded, status }: AdminDeps,
  drafts: readonly FoundDraft[],
  trials: readonly FoundTrial[],
): Promise<{ findings: Finding[] }> {
  const { warnings, bodyChanges } = await recorded();
  const { mappings } = snapshot().mappings;
  const toFinding =
    (from: Finding["from"]) =>
    ({ path, message, file, line }: Issue): Finding => ({
      from,
      path,
      message,
      mapping: findOwner(path, mappings),
      file: file ?? null,
      line: line ?? null,
    });
  // The trial of a draft that was accepted or dropped says what it has counted.
  const gone = trials
    .filter(({ draft }) => drafts.every(({ name }) => name !== draft))
    .map(({ draft }) => ({ name: draft, problem: null }));
  return {
    findings: [
      ...status().reloadProblems.map(toFinding("config")),
      ...[...snapshot().warnings, ...warnings].map(toFinding("lint")),
      ...bodyChanges.map(({ mapping, message }): Finding => ({
        from: "shape",
        path: null,
        message,
        mapping,
        file: null,
        line: null,
      })),
      ...[...drafts, ...gone].map((draft) => toDraftFinding(draft, trials)),
    ],
  };
}
