import type { Issue } from "../../core/errors.ts";
import type { AdminDeps } from "../types.ts";
import type { Finding } from "./watch-views.ts";

/** The mapping that a field of the config belongs to: the longest place that the path begins with. */
function findOwner(path: string, mappings: readonly { id: string; at: string }[]): string | null {
  const owners = mappings.filter(
    ({ at }) => path.startsWith(at) && /^(?:[.[]|$)/.test(path.slice(at.length)),
  );
  return owners.toSorted((one, other) => other.at.length - one.at.length)[0]?.id ?? null;
}

/** Lists what lint and the shapes of recorded bodies have found, the problems of the config on disk, and mappings in shadow. */
export async function listFindings({
  snapshot,
  hookShapes,
  status,
}: AdminDeps): Promise<{ findings: Finding[] }> {
  const { warnings, bodyChanges } = await hookShapes.recorded();
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
  const inShadow = mappings.filter(({ shadow, enabled }) => shadow && enabled);
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
      ...inShadow.map(({ id, at }): Finding => ({
        from: "shadow",
        path: at,
        message: `starts nothing: \`rouse hooks enable ${id}\` makes it live`,
        mapping: id,
        file: null,
        line: null,
      })),
    ],
  };
}
