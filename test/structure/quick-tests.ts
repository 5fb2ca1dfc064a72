/** Which tests are quick: `npm run check` runs them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type CodeFile, getImports, ROOT } from "./code.ts";
import { reachable } from "./imports.ts";

const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Record<
  "imports" | "exports",
  Record<string, string | { "rouse-source": string }>
>;
/** The files behind the names that Rouse publishes and has for its plugins: `rouse/plugin`, `#plugin`. */
const PUBLISHED = new Map(
  Object.entries({ ...manifest.imports, ...manifest.exports }).flatMap(([name, target]) =>
    typeof target === "string"
      ? []
      : [[name.replace(/^\./, "rouse"), target["rouse-source"].replace("./", "")] as const],
  ),
);
/** Modules that make a test slow: gateways, processes, threads, servers, browsers and PostgreSQL. */
const SLOW = [
  "src/gateway/gateway.ts",
  "node:child_process",
  "node:worker_threads",
  "node:http",
  "node:net",
  "playwright-core",
  "pg",
];

/** The tests whose imports, and all that these import in turn, have nothing that takes long. */
export function findQuickTests(files: readonly CodeFile[]): string[] {
  const graph = new Map(
    files.map((file) => [
      file.path,
      getImports(file)
        .filter(({ typeOnly }) => !typeOnly)
        .map(({ target, specifier }) => target ?? PUBLISHED.get(specifier) ?? specifier),
    ]),
  );
  return [...graph.keys()]
    .filter((path) => path.endsWith(".test.ts") && !path.endsWith(".soak.test.ts"))
    .filter((path) => {
      const reached = reachable(graph, path);
      return !SLOW.some((name) => reached.has(name));
    });
}
