import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

interface Chunk {
  file: string;
  imports?: string[];
  css?: string[];
  src?: string;
}

const KB = 1000;
const EDITOR = "src/pages/mappings/editor/create.ts";

describe("what a browser loads of the console, compressed", () => {
  let folder: string;
  let manifest: Record<string, Chunk>;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "rouse-console-"));
    const configFile = join(import.meta.dirname, "../../console/vite.config.ts");
    // With `test`, as it is here, Vite adds each element's place in the sources, which does not ship.
    vi.stubEnv("NODE_ENV", "production");
    await build({
      configFile,
      logLevel: "error",
      build: { outDir: folder, manifest: "manifest.json" },
    });
    manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")) as Record<
      string,
      Chunk
    >;
  });
  afterAll(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true, force: true });
  });

  /** The files of a chunk and of all that it imports when it is loaded. */
  const filesOf = (name: string, found = new Set<string>()): Set<string> => {
    const { file, imports = [], css = [] } = manifest[name] as Chunk;
    if (found.has(file)) return found;
    for (const one of [file, ...css]) found.add(one);
    for (const one of imports) filesOf(one, found);
    return found;
  };
  const measure = (files: Iterable<string>): number =>
    [...files].reduce(
      (sum, file) => sum + gzipSync(readFileSync(join(folder, file))).byteLength,
      0,
    );

  it("is at most 45 KB for the frame with any one page", () => {
    const pages = Object.keys(manifest).filter((name) =>
      /^src\/pages\/[a-z]+\/index\.tsx$/.test(name),
    );
    expect(pages).toContain("src/pages/mappings/index.tsx");
    for (const page of pages) {
      const files = filesOf(page, filesOf("index.html"));
      expect(measure(files), page).toBeLessThanOrEqual(45 * KB);
    }
  });

  it("adds at most 1 MB to the package, unpacked", () => {
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
      (file) => file.isFile() && file.name !== "manifest.json",
    );
    const bytes = files.reduce(
      (sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size,
      0,
    );
    expect(bytes).toBeGreaterThan(100 * KB);
    expect(bytes).toBeLessThanOrEqual(1000 * KB);
  });

  it("is at most 175 KB more for the editor, which no page loads before it is shown", () => {
    const frame = filesOf("src/pages/mappings/index.tsx", filesOf("index.html"));
    expect([...frame]).not.toContain((manifest[EDITOR] as Chunk).file);
    const editor = [...filesOf(EDITOR)].filter((file) => !frame.has(file));
    expect(measure(editor)).toBeGreaterThan(50 * KB);
    expect(measure(editor)).toBeLessThanOrEqual(175 * KB);
  });
});
