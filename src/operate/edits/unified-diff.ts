import { FILE_HEADERS_ONLY, formatPatch, structuredPatch } from "diff";
import type { FileChange } from "./user-files.ts";

/**
 * Renders a change of a file as `git apply` takes it; empty if nothing changes.
 * @param name the file's path from the top of the working tree, with slashes.
 */
export function renderFilePatch(
  name: string,
  { before, after }: Pick<FileChange, "before" | "after">,
): string {
  if (before === after) return "";
  const [old, fresh] = [
    before === null ? "/dev/null" : `a/${name}`,
    after === null ? "/dev/null" : `b/${name}`,
  ];
  const mode =
    before === null ? "new file mode 100644\n" : after === null ? "deleted file mode 100644\n" : "";
  const patch = structuredPatch(old, fresh, before ?? "", after ?? "", undefined, undefined, {
    context: 3,
  });
  return `diff --git a/${name} b/${name}\n${mode}${formatPatch(patch, FILE_HEADERS_ONLY)}`;
}
