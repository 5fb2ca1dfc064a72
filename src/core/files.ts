import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { isAbsolute, join, relative, sep } from "node:path";

/** Texts that stand in for files, by absolute path without links; null: the file is to be seen as absent. */
export type FileTexts = ReadonlyMap<string, string | null>;

/**
 * Reads a file as text, or what stands in for it.
 * @throws an error with a code such as `ENOENT`, as `readFileSync` does.
 */
export function readText(file: string, texts?: FileTexts): string {
  const text = texts?.get(file);
  if (text === null) throw Object.assign(new Error(`${file} is absent`), { code: "ENOENT" });
  return text ?? readFileSync(file, "utf8");
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file or folder",
  ENOTDIR: "a part of its path is no folder",
  EISDIR: "it is a folder",
  EACCES: "access is denied",
  EPERM: "access is denied",
  EROFS: "its file system is read-only",
  ENOSPC: "the disk is full",
};

/** Describes the reason that a file cannot be read or written. */
export function describeFileError(error: unknown): string {
  const { code = "unknown error" } = error as { code?: string };
  return REASONS[code] ?? code;
}

/** True if there is a file, or a text that stands in for it. */
export function isPresent(file: string, texts?: FileTexts): boolean {
  const text = texts?.get(file);
  return text === undefined ? existsSync(file) : text !== null;
}

/** The names of the JSON files in a folder, without their ending; none if there is no such folder. */
export function listJson(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.endsWith(".json"))
    .map((name) => name.slice(0, -".json".length))
    .toSorted();
}

/** A stamp that changes with each write of a file, also through links; undefined if it is not there. */
export function fileStamp(file: string): string | undefined {
  try {
    const { ino, size, mtimeNs, ctimeNs } = statSync(file, { bigint: true });
    return `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
  } catch {
    return undefined;
  }
}

/** The real path of a file inside a folder, or what is wrong with the name: no way out by `..`, an absolute path or a link. */
export function fileInside(
  folder: string,
  name: string,
): { ok: true; file: string } | { ok: false; message: string } {
  if (isAbsolute(name) || name.split(/[\\/]/).includes(".."))
    return { ok: false, message: "must lie inside its folder: no `..` and no absolute path" };
  try {
    const real = realpathSync(join(folder, name));
    if (!isInside(realpathSync(folder), real))
      return { ok: false, message: "is a link out of its folder" };
    return statSync(real).isFile()
      ? { ok: true, file: real }
      : { ok: false, message: "is no file" };
  } catch {
    return { ok: false, message: `there is no such file in ${folder}` };
  }
}

/** The folders in a folder; none if it is not there. */
export function getSubfolders(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && entry.name !== "node_modules")
      .map(({ name }) => join(folder, name));
  } catch {
    return [];
  }
}

/** True if a path is a folder or lies in it. Links are not followed. */
export function isInside(folder: string, path: string): boolean {
  const inside = relative(folder, path);
  return (
    inside === "" || (inside !== ".." && !inside.startsWith(`..${sep}`) && !isAbsolute(inside))
  );
}
