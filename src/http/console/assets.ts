import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify, stripVTControlCharacters } from "node:util";
import { brotliDecompressSync } from "node:zlib";
import { newToken } from "../../core/secret.ts";

/** `../../../console/`: the built page in a package (`dist/console`, its parts in Brotli), and its sources in a clone. */
const HERE = fileURLToPath(new URL("../../../console/", import.meta.url));
const NAME = /^(?:index\.html|assets\/[\w.-]+)$/;
/** The end of the output of a build that failed. */
const LAST_LINES = 20;

/** Changes when a source of the page or a version of what it is built from does. */
function digestSources(): string {
  const hash = createHash("sha256");
  const add = (path: string): void => {
    const { mtimeMs, size } = statSync(path);
    hash.update(`${path} ${mtimeMs} ${size}\n`);
  };
  for (const name of readdirSync(HERE, { recursive: true, encoding: "utf8" }).toSorted())
    add(join(HERE, name));
  add(join(HERE, "..", "package.json"));
  return hash.digest("hex").slice(0, 16);
}

/** Builds the page into a folder, which appears whole or not at all: gateways of one clone may build at the same time. */
async function build(folder: string): Promise<void> {
  const fresh = `${folder}-${newToken().slice(0, 8)}`;
  try {
    const vite = dirname(createRequire(import.meta.url).resolve("vite/package.json"));
    const program = join(vite, "bin", "vite.js");
    await promisify(execFile)(
      process.execPath,
      [program, "build", HERE, "--outDir", fresh, "--logLevel", "error"],
      { env: { ...process.env, NODE_OPTIONS: "", NODE_ENV: "production" } },
    );
    renameSync(fresh, folder);
  } catch (error) {
    // An error that is none of the program has no output.
    const { stdout, stderr, message } = error as Error & { stdout?: string; stderr?: string };
    const said = `${stdout ?? ""}${stderr ?? ""}` || message;
    const lines = stripVTControlCharacters(said).trim().split("\n");
    if (!existsSync(folder)) throw new Error(lines.slice(-LAST_LINES).join("\n"), { cause: error });
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

/** Returns the folder of the built page. In a clone it is built first if its sources have changed, which takes some seconds. */
async function findFolder(): Promise<string> {
  if (!existsSync(join(HERE, "vite.config.ts"))) return HERE;
  const cache = join(HERE, "..", "node_modules", ".cache", "rouse-console");
  const folder = join(cache, digestSources());
  if (!existsSync(folder)) await build(folder);
  return folder;
}

/**
 * Creates the reader of the files of the operator's page, in Brotli if the browser takes that and the package has it so;
 * undefined if there is none of this name. It rejects with the output of the build if a clone's page could not be built.
 */
export function createConsoleAssets() {
  let found: Promise<string> | undefined;
  return async (name: string, takesBrotli: boolean) => {
    if (!NAME.test(name) || name.includes("..")) return undefined;
    found ??= findFolder();
    const folder = await found.catch((error: unknown) => {
      // The next visit builds again: the sources may have been repaired.
      found = undefined;
      throw error;
    });
    const file = join(folder, name);
    if (existsSync(file)) return { bytes: readFileSync(file), isBrotli: false };
    if (!existsSync(`${file}.br`)) return undefined;
    const packed = readFileSync(`${file}.br`);
    return { bytes: takesBrotli ? packed : brotliDecompressSync(packed), isBrotli: takesBrotli };
  };
}
