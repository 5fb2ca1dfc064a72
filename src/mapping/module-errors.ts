import { isAbsolute } from "node:path";
import type { BuildFailure, Message } from "esbuild";
import type { Issue } from "../core/errors.ts";
import { renderExcerpt } from "./excerpt.ts";

/** What is wrong with a module, without the path of the mapping that names it. */
export type ModuleProblem = Omit<Issue, "path">;

const MAX_ERRORS = 5;

/** `shop.ts:3:9`, as the compiler names a place below its working folder, counted from 1; then what it says, and the line. */
function renderError({ text, location }: Message): { message: string; excerpt: string } {
  if (!location) return { message: text, excerpt: "" };
  const { file, line, column, lineText } = location;
  // No line of a file outside the folder is shown: it may hold anything.
  if (file.startsWith("..") || isAbsolute(file)) return { message: `${file}:${line}: it cannot be compiled`, excerpt: "" };
  // esbuild counts a column in bytes of UTF-8.
  const at = Buffer.from(lineText).subarray(0, column).toString("utf8").length;
  return { message: `${file}:${line}:${at + 1}: ${text}`, excerpt: renderExcerpt(lineText, at) };
}

/** Says in full what the compiler found: each error with its place and its line. Undefined if it is no error of the compiler. */
export function toCompileProblem(error: unknown): ModuleProblem | undefined {
  const errors = ((error as Partial<BuildFailure>).errors ?? []).slice(0, MAX_ERRORS).map(renderError);
  const [first, ...others] = errors;
  if (!first) return undefined;
  const detail = [first.excerpt, ...others.flatMap(({ message, excerpt }) => [message, excerpt])].filter(Boolean).join("\n");
  return { message: `cannot be loaded: ${first.message}`, ...(detail === "" ? {} : { detail }) };
}

/**
 * Finds what does not compile in a JavaScript module or in a file of the user's that it imports: Node says of many such
 * errors neither where they are nor more than the first. Undefined if all of it compiles.
 */
export async function findCompileProblem(file: string, folder: string): Promise<ModuleProblem | undefined> {
  const { build } = await import("esbuild");
  try {
    await build({
      entryPoints: [file],
      absWorkingDir: folder,
      bundle: true,
      write: false,
      platform: "node",
      format: "esm",
      packages: "external",
      // Rouse's own names, which are no packages.
      external: ["#plugin", "#channel-kit", "#transform"],
      tsconfigRaw: {},
      logLevel: "silent",
    });
    return undefined;
  } catch (error) {
    return toCompileProblem(error);
  }
}
