import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");

function sourceFiles(folder: string): string[] {
  return readdirSync(join(ROOT, folder)).flatMap((name) => {
    const path = join(folder, name);
    if (statSync(join(ROOT, path)).isDirectory()) return sourceFiles(path);
    return name.endsWith(".ts") && !name.endsWith(".test.ts") ? [path] : [];
  });
}

interface Import {
  specifier: string;
  typeOnly: boolean;
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  const found: Import[] = [];
  for (const match of text.matchAll(/^(?:import|export)\s+(type\s+)?[^;]*?from\s+"([^"]+)"/gm))
    found.push({ specifier: match[2] as string, typeOnly: match[1] !== undefined });
  for (const match of text.matchAll(/\bimport\("([^"]+)"\)/g)) found.push({ specifier: match[1] as string, typeOnly: false });
  return found;
}

/** The lines of a file without comments and texts. */
const codeLines = (file: string): string[] =>
  readFileSync(join(ROOT, file), "utf8")
    .split("\n")
    .filter((line) => !/^\s*(?:\/\/|\/?\*)/.test(line))
    .map((line) => line.replace(/"[^"]*"/g, '""'));

const inRepo = (file: string, specifier: string): string => relative(ROOT, resolve(ROOT, dirname(file), specifier));

/** Which folders of src a folder may import at run time, besides itself. Types may be looked at from anywhere below. */
const ALLOWED: Record<string, string[]> = {
  cli: ["gateway", "http", "intake", "signatures", "knowledge", "store", "config", "core", "mapping", "plugin"],
  "index.ts": ["gateway", "plugin", "config", "core"],
  gateway: [
    "http",
    "intake",
    "signatures",
    "mapping",
    "actions",
    "agent",
    "knowledge",
    "delivery",
    "sessions",
    "store",
    "config",
    "plugin",
    "core",
  ],
  http: ["intake", "mapping", "actions", "knowledge", "signatures", "store", "config", "core"],
  intake: ["mapping", "signatures", "actions", "sessions", "store", "config", "core"],
  signatures: ["config", "core"],
  mapping: ["config", "core", "plugin"],
  actions: ["agent", "delivery", "sessions", "queue", "store", "config", "core"],
  delivery: ["plugin", "store", "config", "core"],
  agent: ["sessions", "knowledge", "store", "config", "core"],
  knowledge: ["store", "config", "core"],
  sessions: ["store", "config", "core"],
  queue: ["store", "config", "core"],
  store: ["config", "core"],
  plugin: ["delivery", "mapping", "config", "core"],
  config: ["core"],
  core: [],
};

const partOf = (path: string): string => path.split("/")[1] as string;

describe("the structure of the code", () => {
  const files = sourceFiles("src");

  it("imports go one way", () => {
    const wrong: string[] = [];
    for (const file of files) {
      const part = partOf(file);
      for (const { specifier, typeOnly } of importsOf(file)) {
        if (!specifier.startsWith(".") || typeOnly) continue;
        const target = inRepo(file, specifier);
        const targetPart = partOf(target);
        if (targetPart !== part && !ALLOWED[part]?.includes(targetPart)) wrong.push(`${file} → ${target}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("the intake knows no HTTP: no import of it, types included, and no status but those of the error table", () => {
    const wrong = files
      .filter((file) => partOf(file) === "intake")
      .flatMap((file) => {
        const imported = importsOf(file).map(({ specifier }) => (specifier.startsWith(".") ? inRepo(file, specifier) : specifier));
        const found = imported.filter((name) => /^(?:src\/http\/|@?hono\b|node:https?$)/.test(name));
        const code = readFileSync(join(ROOT, file), "utf8").replaceAll(/\/\*[^]*?\*\/|\/\/.*/g, "");
        const text = code.match(/\b(?:Response|Request|Headers)\b|\bstatus\W+[1-5]\d\d\b/g) ?? [];
        return [...found, ...text].map((what) => `${file} → ${what}`);
      });
    expect(wrong).toEqual([]);
  });

  it("no import cycle, types included", () => {
    const graph = new Map(
      files.map((file) => [
        file,
        importsOf(file)
          .filter((entry) => entry.specifier.startsWith("."))
          .map((entry) => inRepo(file, entry.specifier)),
      ]),
    );
    const cycles: string[] = [];
    const done = new Set<string>();
    const visit = (file: string, path: string[]): void => {
      if (path.includes(file)) cycles.push([...path.slice(path.indexOf(file)), file].join(" → "));
      if (done.has(file) || path.includes(file)) return;
      for (const next of graph.get(file) ?? []) visit(next, [...path, file]);
      done.add(file);
    };
    for (const file of files) visit(file, []);
    expect(cycles).toEqual([]);
  });

  it("plugins and transforms import only their interface, packages and their own folder", () => {
    const wrong: string[] = [];
    for (const file of [...sourceFiles("plugins"), ...sourceFiles("transforms")]) {
      for (const { specifier } of importsOf(file)) {
        const own =
          specifier.startsWith("./") ||
          (specifier.startsWith("../") && inRepo(file, specifier).startsWith(`${file.split("/").slice(0, 2).join("/")}/`));
        const forbidden = specifier.startsWith("#")
          ? specifier !== "#plugin" && specifier !== "#transform"
          : specifier.startsWith(".") && !own;
        if (forbidden) wrong.push(`${file} → ${specifier}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("nothing in src names a plugin or a sender", () => {
    const channels = (JSON.parse(readFileSync(join(ROOT, "plugins/catalog.json"), "utf8")) as { id: string }[])
      .map((entry) => entry.id)
      .filter((id) => id !== "console" && id !== "signal");
    const names = new RegExp(
      `\\b(?:${[...channels, "github", "gitlab", "gmail", "stripe", "shopify", "svix", "twilio", "zoom", "notion", "bluebubbles"].join("|")})\\b`,
      "i",
    );
    const wrong = files.filter((file) => names.test(readFileSync(join(ROOT, file), "utf8")));
    expect(wrong).toEqual([]);
  });

  it("bodies of requests are read by one reader, with its limits and its clock", () => {
    const reads = /\b(?:req|request|raw)\.(?:text|json|formData|arrayBuffer|blob|bytes|parseBody|body)\b|\bincoming\.on\(/;
    // The reader, what hands it a request's body, and files in which `request` is a stored one.
    const allowed = ["core/body", "http/request", "plugin/kit", "http/admin-views", "cli/events"];
    const wrong = [...files, ...sourceFiles("plugins")]
      .filter((file) => !allowed.some((name) => file === `src/${name}.ts`))
      .flatMap((file) =>
        readFileSync(join(ROOT, file), "utf8")
          .split("\n")
          .filter((line) => reads.test(line))
          .map((line) => `${file}: ${line.trim()}`),
      );
    expect(wrong).toEqual([]);
  });

  it("the process, its clock and its network are used by the command line and the library's defaults alone", () => {
    const ofProcess =
      /(?<!\.)\bprocess\.(?:env|on|once|off|exit|exitCode|stdout|stderr|stdin|kill|cwd|chdir|argv)\b|node:process|\bDate\.now\b|new Date\(\)|\bsystemClock\b|(?<!typeof )globalThis\.fetch\b/;
    const network = /(?:\?\?|=|\bawait|\breturn) fetch\b|[(,:] fetch\(/;
    /** A parameter, or a member taken out of one. */
    const ownFetch = /[{,(]\s*fetch\s*[,}:]/;
    const allowed = [
      "src/cli/",
      "src/index.ts",
      "src/core/clock.ts",
      // Programs of their own: processes and a thread.
      "src/mapping/child.ts",
      "src/knowledge/extract/child.ts",
      "src/knowledge/postgres/worker.ts",
    ];
    const wrong = [...files, ...sourceFiles("plugins")]
      .filter((file) => !allowed.some((name) => file.startsWith(name)))
      .flatMap((file) => {
        const lines = codeLines(file);
        const isGlobal = !lines.some((line) => ownFetch.test(line));
        return lines.filter((line) => ofProcess.test(line) || (isGlobal && network.test(line))).map((line) => `${file}: ${line.trim()}`);
      });
    expect(wrong).toEqual([]);
  });

  it("files stay readable", () => {
    const long = [...files, ...sourceFiles("plugins")]
      .map((file) => [file, readFileSync(join(ROOT, file), "utf8").split("\n").length] as const)
      .filter(([, lines]) => lines > 300);
    expect(long).toEqual([]);
  });

  it("no escape hatches from the type checker", () => {
    const wrong = [...files, ...sourceFiles("plugins")].filter((file) =>
      /@ts-(?:ignore|expect-error|nocheck)|\bas any\b/.test(readFileSync(join(ROOT, file), "utf8")),
    );
    expect(wrong).toEqual([]);
  });
});
