/** Gates about names: one name has one meaning, and no member of a type is there for nothing. */
import type { Node } from "oxc-parser";
import { type CodeFile, type Finding, getImports, isProduct, walk } from "./code.ts";

/** The names that a declaration or a pattern introduces. */
function boundNames(node: Node | null): string[] {
  switch (node?.type) {
    case "Identifier":
      return [node.name];
    case "VariableDeclaration":
      return node.declarations.flatMap((declarator) => boundNames(declarator.id));
    case "ObjectPattern":
      return node.properties.flatMap((property) =>
        boundNames(property.type === "RestElement" ? property.argument : property.value),
      );
    case "ArrayPattern":
      return node.elements.flatMap((element) =>
        boundNames(element?.type === "RestElement" ? element.argument : element),
      );
    case "AssignmentPattern":
      return boundNames(node.left);
    case "FunctionDeclaration":
    case "TSDeclareFunction":
    case "ClassDeclaration":
    case "TSInterfaceDeclaration":
    case "TSTypeAliasDeclaration":
    case "TSEnumDeclaration":
      return boundNames(node.id);
    default:
      return [];
  }
}

/** The names that a file declares and exports. What it exports again from another file is not among them. */
export function declaredExports({ program }: CodeFile): Set<string> {
  if (program.type !== "Program") return new Set();
  const imported = new Set(
    program.body.flatMap((node) =>
      node.type === "ImportDeclaration" ? node.specifiers.map(({ local }) => local.name) : [],
    ),
  );
  return new Set(
    program.body.flatMap((node) => {
      if (node.type !== "ExportNamedDeclaration" || node.source) return [];
      if (node.declaration) return boundNames(node.declaration);
      return node.specifiers.flatMap(({ local, exported }) =>
        local.type === "Identifier" && exported.type === "Identifier" && !imported.has(local.name)
          ? [exported.name]
          : [],
      );
    }),
  );
}

const PAGE_FILE = /^console\/src\/pages\/[^/]+\/index\.tsx$/;
const isInConsole = (path: string): boolean => path.startsWith("console/");

/**
 * An exported name is declared in one file. Two plugins may use the same name: no file can import both. So may two pages of the
 * console, which are parts of their own. The console is a
 * program of its own, in a browser. Every command that `src/cli/run.ts` loads has a `register`, and every page of the console
 * a `Page`.
 */
export function exportsDoNotCollide(files: readonly CodeFile[]): Finding[] {
  const runner = files.find(({ path }) => path === "src/cli/run.ts");
  const commands = new Set(runner && getImports(runner).map(({ target }) => target));
  const places = files
    .filter(isProduct)
    .flatMap((file) =>
      [...declaredExports(file)].map((name) => ({
        file: file.path,
        name,
        unit: /^(?:plugins|console\/src\/pages)\/[^/]+/.exec(file.path)?.[0],
      })),
    )
    .filter(({ file, name }) => name !== "register" || !commands.has(file))
    .filter(({ file, name }) => name !== "Page" || !PAGE_FILE.test(file));
  const byName = Map.groupBy(places, ({ file, name }) => `${isInConsole(file)} ${name}`);
  return places
    .filter(({ file, name, unit }) =>
      byName
        .get(`${isInConsole(file)} ${name}`)
        ?.some((other) => other.file !== file && (!unit || !other.unit || other.unit === unit)),
    )
    .map(({ file, name }) => ({ file, what: name }));
}

const keyName = (key: Node): string | undefined =>
  key.type === "Identifier"
    ? key.name
    : key.type === "Literal" && typeof key.value === "string"
      ? key.value
      : undefined;

/** Members that a package reads: Hono the variables of a context. */
const READ_BY_PACKAGES = ["Variables"];

/** The names that the code of a file uses as members: reads, writes, patterns, keys, and texts that may be a key. */
function usedMembers({ program }: CodeFile): Set<string> {
  const used = new Set<string>();
  walk(program, (node, parent) => {
    const isSignature =
      (parent?.type === "TSPropertySignature" || parent?.type === "TSMethodSignature") &&
      parent.key === node;
    if (isSignature) return;
    if (node.type === "MemberExpression" && node.property.type === "Identifier")
      used.add(node.property.name);
    else if (
      node.type === "Property" ||
      node.type === "MethodDefinition" ||
      node.type === "PropertyDefinition"
    )
      used.add(keyName(node.key) ?? "");
    else if (node.type === "Literal" && typeof node.value === "string") used.add(node.value);
    else if (node.type === "TSParameterProperty")
      for (const name of boundNames(node.parameter)) used.add(name);
  });
  return used;
}

/** A member of an interface or of a type literal is read or written somewhere, by its name. */
export function membersAreUsed(files: readonly CodeFile[]): Finding[] {
  const used = new Set([...READ_BY_PACKAGES, ...files.flatMap((file) => [...usedMembers(file)])]);
  return files.filter(isProduct).flatMap((file) => {
    const unused: Finding[] = [];
    walk(file.program, (node) => {
      if (node.type !== "TSPropertySignature" && node.type !== "TSMethodSignature") return;
      const name = keyName(node.key);
      if (name !== undefined && !used.has(name)) unused.push({ file: file.path, what: name });
    });
    return unused;
  });
}
