import { existsSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";
import { RouseError, type Issue } from "../../core/errors.ts";
import { replaceFile } from "../../core/replace-file.ts";
import type { ComparisonDeps } from "./landing-checks.ts";
import { renderFilePatch } from "./unified-diff.ts";
import { findLink, keepBefore, readNow, refuseStale, type FileChange } from "./user-files.ts";

/** The time in which a gateway has to use a changed file. With a thousand mappings, a busy machine needs some seconds. */
const RELOAD_MS = 20_000;

/** The parts of a running gateway, or of the command line if none runs, that writing a change needs. */
export interface WriteDeps extends ComparisonDeps {
  /** Puts the files into use; absent if no gateway runs. */
  reload?: () => Promise<{ ok: true; hash: string } | { ok: false; issues: Issue[] }>;
  /** Returns why no file must be written here, whatever its mode; undefined if nothing is against it. */
  findObstacle(): Promise<string | undefined>;
}

/** The result of a change: it is in the files, or it is a patch with the reason. */
export type Landed =
  /** `inUse`: a running gateway uses it. */
  | { landed: true; file: string; inUse: boolean }
  | { landed: false; file: string; reason: string; patch: string };

/** The folder from which `git apply` names files: the top of the working tree, or the config's folder. */
function findTop(file: string, { snapshot }: Pick<WriteDeps, "snapshot">): string {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    if (existsSync(join(folder, ".git"))) return folder;
    if (dirname(folder) === folder) break;
  }
  const { configFile, config } = snapshot();
  return dirname(configFile ?? config.hooks.mappingsDir);
}

/** A change as a patch. */
export const renderPatch = (change: FileChange, deps: Pick<WriteDeps, "snapshot">): string =>
  renderFilePatch(relative(findTop(change.file, deps), change.file).split(sep).join("/"), change);

/** The reason why a running gateway does not use a changed file; undefined if it does. */
async function findReloadProblem(
  expected: string,
  { reload }: WriteDeps,
): Promise<{ message: string; issues?: Issue[] } | undefined> {
  if (!reload) return undefined;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">(
    (resolve) => (timer = setTimeout(() => resolve("late"), RELOAD_MS)),
  );
  const reloaded = await Promise.race([reload(), late]);
  clearTimeout(timer);
  if (reloaded === "late")
    return { message: `the gateway did not use it within ${RELOAD_MS / 1000} seconds` };
  if (!reloaded.ok) return { message: "the gateway could not use it", issues: reloaded.issues };
  return reloaded.hash === expected
    ? undefined
    : { message: "the gateway then used another config than the one that was checked" };
}

/** Puts the file as it was, unless it has changed since. `isBack`: the change is not in it any more. */
async function putBack(
  { file, before, after }: FileChange,
  deps: WriteDeps,
): Promise<{ isBack: boolean; result: string }> {
  if (readNow(file) !== after)
    return { isBack: true, result: "it has changed since, so it was left as it is" };
  const problem = await replaceFile(file, before).then(
    () => undefined,
    (error: unknown) => renderCode(error),
  );
  const isBack = readNow(file) === before;
  if (isBack) await deps.reload?.();
  if (isBack) return { isBack, result: "it was put back as it was" };
  return {
    isBack,
    result: `it could not be put back (${problem}): ${before === null ? "remove it" : `${basename(file)}.before has what it was`}`,
  };
}

const renderCode = (error: unknown): string =>
  (error as NodeJS.ErrnoException | null)?.code ?? (error instanceof Error ? error.name : "error");

/**
 * Writes the file of a change. The last look at it is right before the new file takes its place.
 * @returns why it cannot be written; undefined if it was.
 * @throws RouseError `conflict`, or `not_landed` if the file has the change and may lose it when the power fails.
 */
async function writeFileOfChange(change: FileChange, deps: WriteDeps): Promise<string | undefined> {
  const { file, before, after } = change;
  let link: string | undefined;
  const confirm = (): void => {
    link = findLink(file);
    if (link !== undefined || readNow(file) !== before) refuseStale(file);
  };
  try {
    await replaceFile(file, after, { confirm });
    return undefined;
  } catch (error) {
    if (link !== undefined) return link;
    if (error instanceof RouseError) throw error;
    const reason = `it cannot be written (${renderCode(error)})`;
    if (readNow(file) !== after) return reason;
    // The new file is in its place, and the folder could not be made durable.
    const { isBack, result } = await putBack(change, deps);
    if (isBack) return `${reason}; ${result}`;
    throw new RouseError({
      code: "not_landed",
      message: `${basename(file)} was changed, but ${reason}; ${result}`,
    });
  }
}

/** Writes a change, and waits until a gateway that runs uses exactly what was checked; else the file goes back. */
export async function writeChange(
  change: FileChange,
  expected: string,
  deps: WriteDeps,
): Promise<Landed> {
  const { file, before } = change;
  const notWritten = (reason: string): Landed => ({
    landed: false,
    file,
    reason,
    patch: renderPatch(change, deps),
  });
  try {
    if (before !== null) await keepBefore(file, before);
  } catch (error) {
    return notWritten(`${file}.before cannot be written (${renderCode(error)})`);
  }
  const reason = await writeFileOfChange(change, deps);
  if (reason !== undefined) return notWritten(reason);
  const problem = await findReloadProblem(expected, deps);
  if (problem) {
    const { result } = await putBack(change, deps);
    throw new RouseError({
      code: "not_landed",
      ...problem,
      message: `${basename(file)} was changed, but ${problem.message}; ${result}`,
    });
  }
  return { landed: true, file, inUse: deps.reload !== undefined };
}
