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
import { promisify, stripVTControlCharacters } from "node:util";
import { brotliCompress, brotliDecompressSync, constants, gzip } from "node:zlib";
import { newToken } from "../../core/secret.ts";

/** `../../../console/`: the built page in a package (`dist/console`, its parts in Brotli), and its sources in a clone. */
const HERE = fileURLToPath(new URL("../../../console/", import.meta.url));
const TYPES: Record<string, string> = {
  html: "text/html",
  css: "text/css",
  js: "text/javascript",
  svg: "image/svg+xml",
};
const NAME = /^(?:index\.html|assets\/[\w.-]+)$/;
/** Six is nearly as small as eleven and takes a tenth of the time. */
const BROTLI_QUALITY = 6;
/** The last lines of a build that failed. */
const LAST_LINES = 20;
/** Builds of sources as they were; a page of yesterday may still load its parts from one. */
const OLD_BUILD_MS = 7 * 24 * 60 * 60 * 1000;

/** A file of the page, compressed once for each encoding that a browser asked for. */
interface Asset {
  type: string;
  bytes: Buffer;
  encoded: Map<string, Buffer>;
}

/** Whether the page can be shown. In a clone it is built first, which takes about two seconds. */
export type AssetsState =
  | { state: "ready" }
  | { state: "building" }
  | { state: "failed"; output: string };

/** The operator's page as files. */
export interface ConsoleAssets {
  /** Begins to build the page if that is needed, and does not wait for it. */
  prepare(): AssetsState;
  /** A file as the browser accepts it, or undefined if there is none of this name. */
  read(
    name: string,
    acceptEncoding: string,
  ): Promise<{ type: string; bytes: Buffer; encoding: string | null } | undefined>;
}

const compressBrotli = promisify(brotliCompress);
const compressGzip = promisify(gzip);

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

/** Deletes builds that are a week old. The clock is that of the files themselves: `now` is the time of the newest build. */
function sweepBuilds(cache: string, newest: string): void {
  const now = statSync(newest).mtimeMs;
  for (const name of readdirSync(cache)) {
    const folder = join(cache, name);
    // Another gateway of the same clone may delete it first.
    const age = now - (statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? now);
    if (age > OLD_BUILD_MS) rmSync(folder, { recursive: true, force: true });
  }
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
      sweepBuilds(dirname(folder), folder);
    } catch (error) {
      if (!existsSync(folder)) return end(String(error));
    }
    end(null);
  });
}

/** The file in an encoding that the browser accepts, compressed at the first request. */
async function encodeAsset(
  asset: Asset,
  acceptEncoding: string,
): Promise<{ type: string; bytes: Buffer; encoding: string | null }> {
  const { type, bytes } = asset;
  const encoding = /\bbr\b/.test(acceptEncoding)
    ? "br"
    : /\bgzip\b/.test(acceptEncoding)
      ? "gzip"
      : null;
  if (encoding === null) return { type, bytes, encoding };
  const kept = asset.encoded.get(encoding);
  if (kept) return { type, bytes: kept, encoding };
  const packed =
    encoding === "br"
      ? await compressBrotli(bytes, {
          params: { [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY },
        })
      : await compressGzip(bytes);
  asset.encoded.set(encoding, packed);
  return { type, bytes: packed, encoding };
}

/**
 * The files of the operator's page: from the package, or, in a clone, built from `console/` into
 * `node_modules/.cache/rouse-console` at the first visit and again when a source has changed.
 */
export function createConsoleAssets(): ConsoleAssets {
  const cache = join(HERE, "..", "node_modules", ".cache", "rouse-console");
  const files = new Map<string, Asset>();
  let folder = isClone() ? null : HERE;
  let building: string | null = null;
  let failure: { digest: string; output: string } | null = null;

  const prepare = (): AssetsState => {
    if (!isClone()) return { state: "ready" };
    const digest = digestSources();
    const wanted = join(cache, digest);
    if (existsSync(join(wanted, "index.html"))) {
      if (folder !== wanted) files.clear();
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

  const load = (name: string): Asset | undefined => {
    // A page that was opened before the gateway started again loads its parts without a visit of the first one.
    if (folder === null) prepare();
    const known = files.get(name);
    if (known) return known;
    if (!NAME.test(name) || name.includes("..") || folder === null) return undefined;
    const file = join(folder, name);
    const packed = existsSync(`${file}.br`) ? readFileSync(`${file}.br`) : null;
    if (!packed && !existsSync(file)) return undefined;
    const type = TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream";
    const asset: Asset = {
      type,
      bytes: packed ? brotliDecompressSync(packed) : readFileSync(file),
      encoded: new Map(packed && [["br", packed]]),
    };
    files.set(name, asset);
    return asset;
  };

  return {
    prepare,
    async read(name, acceptEncoding) {
      const asset = load(name);
      return asset && encodeAsset(asset, acceptEncoding);
    },
  };
}
