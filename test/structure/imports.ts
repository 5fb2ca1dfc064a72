/** Gates about imports: which file may import which, types included. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type CodeFile, type Finding, getImports, isProduct, ROOT, walk } from "./code.ts";

/** Which folders of src a folder may import, besides itself. */
const LAYERS: Record<string, string[]> = {
  "channel-kit": ["contract", "vocabulary", "core"],
  testing: ["index.ts", "intake", "delivery", "contract", "config", "vocabulary"],
  cli: [
    "gateway",
    "http",
    "operate",
    "intake",
    "mapping",
    "plugin",
    "knowledge",
    "contract",
    "store",
    "config",
    "vocabulary",
    "core",
  ],
  "index.ts": ["gateway", "contract", "config", "core"],
  gateway: [
    "http",
    "telemetry",
    "operate",
    "intake",
    "mapping",
    "plugin",
    "chat",
    "turns",
    "people",
    "delivery",
    "queue",
    "knowledge",
    "contract",
    "store",
    "config",
    "core",
  ],
  http: [
    "operate",
    "intake",
    "chat",
    "turns",
    "people",
    "agent",
    "knowledge",
    "config",
    "vocabulary",
    "core",
  ],
  telemetry: ["config", "core"],
  operate: [
    "intake",
    "mapping",
    "plugin",
    "chat",
    "turns",
    "people",
    "delivery",
    "agent",
    "knowledge",
    "store",
    "config",
    "vocabulary",
    "core",
  ],
  intake: [
    "mapping",
    "turns",
    "people",
    "queue",
    "contract",
    "store",
    "config",
    "vocabulary",
    "core",
  ],
  mapping: ["plugin", "contract", "config", "vocabulary", "core"],
  plugin: ["delivery", "contract", "store", "config", "core"],
  chat: ["turns", "agent", "knowledge", "store", "config", "vocabulary", "core"],
  turns: [
    "people",
    "delivery",
    "queue",
    "agent",
    "contract",
    "store",
    "config",
    "vocabulary",
    "core",
  ],
  people: ["delivery", "agent", "contract", "store", "config", "vocabulary", "core"],
  delivery: ["queue", "contract", "store", "config", "vocabulary", "core"],
  queue: ["store", "config", "core"],
  agent: ["contract", "store", "config", "vocabulary", "core"],
  knowledge: ["contract", "store", "config", "core"],
  contract: ["store", "config"],
  store: ["config", "vocabulary", "core"],
  config: ["vocabulary", "core"],
  vocabulary: ["core"],
  core: [],
};

/** The rooms that can be left out: what takes a hook to its delivery imports none of them. */
export const OPTIONAL_ROOMS = [
  "cli",
  "http",
  "operate",
  "chat",
  "knowledge",
  "telemetry",
  "testing",
];
const CORE_ROOMS = ["intake", "mapping", "queue", "turns", "agent", "people", "delivery", "plugin"];

const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
  exports: Record<string, unknown>;
};

const isIn = (folder: string) => (file: CodeFile) => file.path.startsWith(`${folder}/`);
/** The folder of src that a path is in, or the file if it is in none. */
export const getPart = (path: string): string => path.split("/")[1] ?? path;

/** Each file with the files that it imports, types included. */
export const importGraph = (files: readonly CodeFile[]): Map<string, string[]> =>
  new Map(files.map((file) => [file.path, getImports(file).flatMap(({ target }) => target ?? [])]));

/** The nodes that can be reached from a node over at least one edge. */
export function reachable(
  graph: ReadonlyMap<string, readonly string[]>,
  from: string,
): Set<string> {
  const seen = new Set<string>();
  const open = [...(graph.get(from) ?? [])];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (seen.has(next)) continue;
    seen.add(next);
    open.push(...(graph.get(next) ?? []));
  }
  return seen;
}

/** The edges that are part of a cycle. */
function cyclicEdges(graph: ReadonlyMap<string, readonly string[]>): Finding[] {
  return [...graph].flatMap(([from, targets]) =>
    [...new Set(targets)]
      .filter((to) => to === from || reachable(graph, to).has(from))
      .map((to) => ({ file: from, what: `imports ${to}` })),
  );
}

export function importsGoOneWay(files: readonly CodeFile[]): Finding[] {
  return files.filter(isIn("src")).flatMap((file) => {
    const part = getPart(file.path);
    return getImports(file).flatMap(({ target, typeOnly }) => {
      if (
        target === undefined ||
        getPart(target) === part ||
        LAYERS[part]?.includes(getPart(target))
      )
        return [];
      return [{ file: file.path, what: `imports ${typeOnly ? "types of " : ""}${target}` }];
    });
  });
}

/** The most files that one can find their way in. */
const MAX_FILES = 25;

/** Finds the folders that are two. */
export const foldersAreSmall = (files: readonly CodeFile[]): Finding[] =>
  [...Map.groupBy(files.filter(isIn("src")), ({ path }) => dirname(path))]
    .filter(([, inside]) => inside.length > MAX_FILES)
    .map(([file]) => ({ file, what: `has more than ${MAX_FILES} files` }));

/** The most files that one file may know: more, and it does the work of others. */
const MAX_FAN_OUT = 15;

/** Finds the files that import too many others of Rouse, types included. */
export const filesKnowFew = (files: readonly CodeFile[]): Finding[] =>
  [...importGraph(files.filter(isIn("src")))]
    .filter(([, targets]) => new Set(targets).size > MAX_FAN_OUT)
    .map(([file]) => ({ file, what: `imports more than ${MAX_FAN_OUT} files` }));

/** Finds the files by which a hook on its way to its delivery needs a room that can be left out, types included. */
export function coreStandsAlone(files: readonly CodeFile[]): Finding[] {
  const source = files.filter(isIn("src"));
  const core = source.map(({ path }) => path).filter((path) => CORE_ROOMS.includes(getPart(path)));
  const graph = importGraph(source).set("core", core);
  const isOptional = (path: string): boolean => OPTIONAL_ROOMS.includes(getPart(path));
  return [...reachable(graph, "core")]
    .filter((file) => !isOptional(file))
    .flatMap((file) =>
      (graph.get(file) ?? [])
        .filter(isOptional)
        .map((target) => ({ file, what: `imports ${target}` })),
    );
}

export const noFileCycles = (files: readonly CodeFile[]): Finding[] =>
  cyclicEdges(importGraph(files.filter(isProduct)));

export function noFolderCycles(files: readonly CodeFile[]): Finding[] {
  const folders = new Map<string, string[]>();
  for (const [file, targets] of importGraph(files.filter(isIn("src")))) {
    const folder = `src/${getPart(file)}`;
    const others = targets
      .map((target) => `src/${getPart(target)}`)
      .filter((other) => other !== folder);
    folders.set(folder, [...(folders.get(folder) ?? []), ...others]);
  }
  return cyclicEdges(folders);
}

export const httpImportsNoStore = (files: readonly CodeFile[]): Finding[] =>
  files.filter(isIn("src/http")).flatMap((file) =>
    getImports(file)
      .filter(({ target }) => target?.startsWith("src/store/"))
      .map(({ target }) => ({ file: file.path, what: `imports ${target}` })),
  );

/** The operator's page runs in a browser: of the gateway it may know what answers look like, and run none of its code. */
export const consoleImportsTypes = (files: readonly CodeFile[]): Finding[] =>
  files.filter(isIn("console")).flatMap((file) =>
    getImports(file)
      .filter(
        ({ target, typeOnly }) =>
          target !== undefined && !target.startsWith("console/") && !typeOnly,
      )
      .map(({ target }) => ({ file: file.path, what: `imports ${target}` })),
  );

/** Signatures and handshakes are parts of a request and an answer, so their folder may know HTTP. */
const SIGNATURES = "src/intake/signatures";

/** The intake knows no HTTP: no import of it, none of its classes, and no status but those of the error table. */
export function intakeKnowsNoHttp(files: readonly CodeFile[]): Finding[] {
  const stages = files.filter((file) => isIn("src/intake")(file) && !isIn(SIGNATURES)(file));
  return stages.flatMap((file) => {
    const what = getImports(file)
      .map(({ target, specifier }) => target ?? specifier)
      .filter((name) => /^(?:src\/http\/|@?hono\b|node:https?$)/.test(name))
      .map((name) => `imports ${name}`);
    walk(file.program, (node) => {
      if (node.type === "Identifier" && ["Request", "Response", "Headers"].includes(node.name))
        what.push(`uses ${node.name}`);
      if (
        node.type === "Literal" &&
        typeof node.value === "number" &&
        node.value >= 100 &&
        node.value <= 599
      ) {
        const before = file.text.slice(Math.max(0, node.start - 20), node.start);
        if (/\bstatus\W+$/.test(before)) what.push(`names the status ${node.value}`);
      }
    });
    return what.map((entry) => ({ file: file.path, what: entry }));
  });
}

/** The contract of stores is not published: only the store that we ship beside SQLite imports it. */
const STORE_PLUGIN = { own: "plugins/postgres", specifier: "#store-kit" };

/** Plugins and transforms import what is published, packages, and their own folder. */
export function pluginsImportWhatIsPublished(files: readonly CodeFile[]): Finding[] {
  return files
    .filter((file) => isIn("plugins")(file) || isIn("transforms")(file))
    .flatMap((file) => {
      const own = file.path.startsWith("plugins/")
        ? file.path.split("/").slice(0, 2).join("/")
        : "transforms";
      return getImports(file)
        .filter(({ specifier, target }) =>
          target === undefined
            ? specifier.startsWith("#") &&
              !(`./${specifier.slice(1)}` in exports) &&
              !(own === STORE_PLUGIN.own && specifier === STORE_PLUGIN.specifier)
            : !target.startsWith(`${own}/`),
        )
        .map(({ specifier }) => ({ file: file.path, what: `imports ${specifier}` }));
    });
}
