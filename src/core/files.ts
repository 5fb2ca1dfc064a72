import { realpathSync, statSync } from "node:fs";
import { isAbsolute, join, relative, sep } from "node:path";

/** The real path of a file inside a folder, or what is wrong with the name: no way out by `..`, an absolute path or a link. */
export function fileInside(folder: string, name: string): { ok: true; file: string } | { ok: false; message: string } {
  if (isAbsolute(name) || name.split(/[\\/]/).includes(".."))
    return { ok: false, message: "must lie inside its folder: no `..` and no absolute path" };
  try {
    const real = realpathSync(join(folder, name));
    const inside = relative(realpathSync(folder), real);
    if (inside.startsWith("..") || isAbsolute(inside) || inside.split(sep).includes(".."))
      return { ok: false, message: "is a link out of its folder" };
    return statSync(real).isFile() ? { ok: true, file: real } : { ok: false, message: "is no file" };
  } catch {
    return { ok: false, message: `there is no such file in ${folder}` };
  }
}

/** Whether a path is a folder or lies in it. Links are not followed. */
export function isInside(folder: string, path: string): boolean {
  const inside = relative(folder, path);
  return inside === "" || (inside !== ".." && !inside.startsWith(`..${sep}`) && !isAbsolute(inside));
}
