import type { Issue } from "../core/errors.ts";
import type { AdminDeps } from "./types.ts";
import type { Finding, FoundTrial } from "./watch-views.ts";

const toFinding =
  (from: Finding["from"]) =>
  ({ path, message, file, line }: Issue): Finding => ({ from, path, message, file: file ?? null, line: line ?? null });

const toDraftFinding = ({ draft, matched, events, runs, ended }: FoundTrial): Finding => ({
  from: "draft",
  path: draft,
  message: `would have taken ${matched} of ${events} hooks and made ${runs} runs${ended ? `; the trial has ended: ${ended.reason}` : ""}`,
  file: null,
  line: null,
});

/** Lists what lint, the shapes of recorded bodies and drafts on trial have found, and the problems of the config on disk. */
export async function listFindings(
  { snapshot, recorded, status }: AdminDeps,
  trials: readonly FoundTrial[],
): Promise<{ findings: Finding[] }> {
  const { warnings, bodyChanges } = await recorded();
  return {
    findings: [
      ...status().reloadProblems.map(toFinding("config")),
      ...[...snapshot().warnings, ...warnings].map(toFinding("lint")),
      ...bodyChanges.map((message): Finding => ({ from: "shape", path: null, message, file: null, line: null })),
      ...trials.map(toDraftFinding),
    ],
  };
}
