/** The files of the project as syntax trees, for the gates of the structure test and the scripts that measure the code. */
import { readdirSync, readFileSync } from "node:fs";
import { extname, join, posix, resolve } from "node:path";
import { parseSync, visitorKeys, type Comment, type Node } from "oxc-parser";

export const ROOT = resolve(import.meta.dirname, "../..");
const EXTENSIONS = new Set([".ts", ".tsx", ".mts", ".js", ".jsx", ".mjs"]);

export interface CodeFile {
  /** The path from the root of the repository, with forward slashes. */
  path: string;
  text: string;
  program: Node;
  comments: Comment[];
}

export interface Finding {
  /** A file or a folder. */
  file: string;
  /** The violation, without numbers: an entry of `known.json` stays true if other code changes. */
  what: string;
}

/** True if a file is part of the program and not of its tests and tools. */
export const isProduct = ({ path }: CodeFile): boolean =>
  ["src/", "plugins/", "console/"].some((folder) => path.startsWith(folder));

/** Parses the text of a file. Throws if it has a syntax error. */
export function parseCode(path: string, text: string): CodeFile {
  const { program, comments, errors } = parseSync(path, text);
  if (errors[0]) throw new Error(`${path}: ${errors[0].message}`);
  return { path, text, program, comments };
}

/** Parses files that exist only in a test: text by path. */
export const parseAll = (texts: Record<string, string>): CodeFile[] =>
  Object.entries(texts).map(([path, text]) => parseCode(path, text));

/** Reads the code of folders: TypeScript and JavaScript, without type declarations and without `node_modules`. */
export function readCode(folders: readonly string[], root: string = ROOT): CodeFile[] {
  return folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter(
        (entry) =>
          entry.isFile() && EXTENSIONS.has(extname(entry.name)) && !entry.name.endsWith(".d.ts"),
      )
      .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
      .filter((path) => !path.includes("node_modules/"))
      .toSorted()
      .map((path) => parseCode(path, readFileSync(join(root, path), "utf8"))),
  );
}

/** Visits a node and all nodes below it, parents first. */
export function walk(
  node: Node,
  visit: (node: Node, parent: Node | undefined) => void,
  parent?: Node,
): void {
  visit(node, parent);
  for (const key of visitorKeys[node.type] ?? []) {
    const below = (node as unknown as Record<string, Node | (Node | null)[] | null>)[key];
    if (!Array.isArray(below)) {
      if (below) walk(below, visit, node);
      continue;
    }
    // An array pattern may have holes.
    for (const child of below) if (child) walk(child, visit, node);
  }
}

/** The text of a file with its comments replaced by spaces; lines stay where they are. */
export function withoutComments({ text, comments }: CodeFile): string {
  let code = "";
  let end = 0;
  for (const comment of comments) {
    code +=
      text.slice(end, comment.start) +
      text.slice(comment.start, comment.end).replaceAll(/[^\n]/g, " ");
    end = comment.end;
  }
  return code + text.slice(end);
}

/** The number of lines of a file that have code on them. */
export const countLines = (file: CodeFile): number =>
  withoutComments(file)
    .split("\n")
    .filter((line) => line.trim() !== "").length;

export interface Import {
  specifier: string;
  /** The path of the file in the repository, if the specifier is relative. */
  target: string | undefined;
  typeOnly: boolean;
}

/** True if an import or export statement names types only. */
const isTypeOnly = (kind: string | undefined, specifiers: readonly object[]): boolean =>
  kind === "type" ||
  (specifiers.length > 0 &&
    specifiers.every(
      (specifier) =>
        ("importKind" in specifier && specifier.importKind === "type") ||
        ("exportKind" in specifier && specifier.exportKind === "type"),
    ));

/** The imports of a file: statements, re-exports, `import()`, and `import("…")` in types. */
export function getImports({ path, program }: CodeFile): Import[] {
  const found: Import[] = [];
  const add = (source: Node | null, typeOnly: boolean): void => {
    if (source?.type !== "Literal" || typeof source.value !== "string") return;
    const specifier = source.value;
    const target = specifier.startsWith(".")
      ? posix.join(posix.dirname(path), specifier)
      : undefined;
    found.push({ specifier, target, typeOnly });
  };
  walk(program, (node) => {
    if (node.type === "ImportDeclaration")
      add(node.source, isTypeOnly(node.importKind, node.specifiers));
    else if (node.type === "ExportNamedDeclaration")
      add(node.source, isTypeOnly(node.exportKind, node.specifiers));
    else if (node.type === "ExportAllDeclaration") add(node.source, node.exportKind === "type");
    else if (node.type === "ImportExpression") add(node.source, false);
    else if (node.type === "TSImportType") add(node.source, true);
  });
  return found;
}
