import type { BuildFailure, Message } from "esbuild";
import { excerptOf } from "./excerpt.ts";

/** What a compiler says of a module. */
interface CompileError {
  /** `shop.ts:3:9`, below the folder of the modules; counted from 1. */
  at: string;
  text: string;
  /** The line, with a caret below the place. */
  excerpt: string;
}

const MAX_ERRORS = 5;

function compileErrors({ text, location }: Message): CompileError[] {
  if (!location) return [];
  const { file, line, column, lineText } = location;
  // esbuild counts a column in bytes of UTF-8.
  const at = Buffer.from(lineText).subarray(0, column).toString("utf8").length;
  return [{ at: `${file}:${line}:${at + 1}`, text, excerpt: excerptOf(lineText, at) }];
}

/**
 * Finds what does not compile in a module or in a file of the user's that it imports: Node says of many such errors
 * neither where they are nor more than the first. Empty if all of it compiles.
 */
export async function findCompileErrors(file: string, folder: string): Promise<CompileError[]> {
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
      external: ["#plugin", "#transform"],
      tsconfigRaw: {},
      logLevel: "silent",
    });
    return [];
  } catch (error) {
    return ((error as Partial<BuildFailure>).errors ?? []).slice(0, MAX_ERRORS).flatMap(compileErrors);
  }
}
