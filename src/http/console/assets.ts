import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";
import { brotliDecompressSync } from "node:zlib";
import { newToken } from "../../core/secret.ts";

/** `../../../console/`: the built page in a package (`dist/console`, its parts in Brotli), and its sources in a clone. */
const HERE = fileURLToPath(new URL("../../../console/", import.meta.url));
const NAME = /^(?:index\.html|assets\/[\w.-]+)$/;
/** The last lines of a build that failed. */
const LAST_LINES = 20;
/** The state of the page. In a clone it is built before it can be shown, which takes about two seconds. */
export type AssetsState =
  | { state: "ready" }
  | { state: "building" }
  | { state: "failed"; output: string };

/** The operator's page as files. */
export interface ConsoleAssets {
  /** Begins to build the page if that is needed, and does not wait for it. */
  prepare(): AssetsState;
  /** A file as it is, or in Brotli if the browser takes that and the package has it so; undefined if there is none of this name. */
  read(name: string, takesBrotli: boolean): { bytes: Buffer; isBrotli: boolean } | undefined;
}

const isClone = (): boolean => existsSync(join(HERE, "vite.config.ts"));

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

/** Deletes the builds of other sources. */
function removeOldBuilds(folder: string): void {
  const cache = dirname(folder);
  for (const name of readdirSync(cache))
    // Two parts of a name: another gateway of this clone is writing it.
    if (join(cache, name) !== folder && !name.includes("-"))
      rmSync(join(cache, name), { recursive: true, force: true });
}

/** Builds the page into a folder, which appears whole or not at all: gateways of one clone may build at the same time. */
function build(folder: string, done: (output: string | null) => void): void {
  const fresh = `${folder}-${newToken().slice(0, 8)}`;
  let output = "";
  let vite: string;
  try {
    vite = createRequire(import.meta.url).resolve("vite/package.json");
  } catch {
    return done("vite is not installed; run `npm ci` in this clone");
  }
  mkdirSync(dirname(folder), { recursive: true });
  const child = spawn(
    process.execPath,
    [
      join(dirname(vite), "bin", "vite.js"),
      "build",
      HERE,
      "--outDir",
      fresh,
      "--logLevel",
      "error",
    ],
    {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, NODE_OPTIONS: "", NODE_ENV: "production" },
    },
  );
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk) => (output += String(chunk)));
  const end = (problem: string | null): void => {
    rmSync(fresh, { recursive: true, force: true });
    done(problem);
  };
  child.on("error", (error) => end(error.message));
  child.on("close", (code) => {
    if (code !== 0)
      return end(
        stripVTControlCharacters(output).trim().split("\n").slice(-LAST_LINES).join("\n") ||
          `vite ended with ${code}`,
      );
    try {
      renameSync(fresh, folder);
      removeOldBuilds(folder);
    } catch (error) {
      if (!existsSync(folder)) return end(String(error));
    }
    end(null);
  });
}

/**
 * The files of the operator's page: from the package, or, in a clone, built from `console/` into
 * `node_modules/.cache/rouse-console` at the first visit and again when a source has changed.
 */
export function createConsoleAssets(): ConsoleAssets {
  const cache = join(HERE, "..", "node_modules", ".cache", "rouse-console");
  let folder = isClone() ? null : HERE;
  let building: string | null = null;
  let failure: { digest: string; output: string } | null = null;

  const prepare = (): AssetsState => {
    if (!isClone()) return { state: "ready" };
    const digest = digestSources();
    const wanted = join(cache, digest);
    if (existsSync(join(wanted, "index.html"))) {
      folder = wanted;
      return { state: "ready" };
    }
    if (failure?.digest === digest) {
      const { output } = failure;
      // The next visit builds again: what was missing may have been installed since.
      failure = null;
      return { state: "failed", output };
    }
    if (building !== digest) {
      building = digest;
      build(wanted, (output) => {
        if (building === digest) building = null;
        failure = output === null ? null : { digest, output };
      });
    }
    return { state: "building" };
  };

  return {
    prepare,
    read(name, takesBrotli) {
      // A page that was opened before the gateway started again loads its parts without a visit of the first one.
      if (folder === null) prepare();
      if (!NAME.test(name) || name.includes("..") || folder === null) return undefined;
      const file = join(folder, name);
      if (existsSync(file)) return { bytes: readFileSync(file), isBrotli: false };
      if (!existsSync(`${file}.br`)) return undefined;
      const packed = readFileSync(`${file}.br`);
      return { bytes: takesBrotli ? packed : brotliDecompressSync(packed), isBrotli: takesBrotli };
    },
  };
}
