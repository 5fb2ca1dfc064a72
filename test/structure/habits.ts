/** Gates about what only few files may do. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Node } from "oxc-parser";
import { type CodeFile, type Finding, isProduct, ROOT, walk } from "./code.ts";

const vendors = (
  JSON.parse(readFileSync(join(ROOT, "plugins/catalog.json"), "utf8")) as {
    id: string;
    providers?: string[];
  }[]
)
  .filter(({ id, providers }) => id !== "console" && id !== "signal" && providers === undefined)
  .map((entry) => entry.id);
/** Vendors of models. OpenAI alone is named, for the format of its API. */
const models = ["anthropic", "claude", "google", "gemini"];
const senders = [
  "github",
  "gitlab",
  "gmail",
  "stripe",
  "shopify",
  "svix",
  "twilio",
  "zoom",
  "notion",
  "bluebubbles",
];

/** Nothing in src names a plugin or a sender, in comments neither. A protocol in the example of a message is no name. */
export function sourceNamesNoVendor(files: readonly CodeFile[]): Finding[] {
  const names = new RegExp(`\\b(?:${[...vendors, ...senders, ...models].join("|")})\\b`, "gi");
  return files
    .filter((file) => file.path.startsWith("src/"))
    .flatMap((file) =>
      (file.text.replaceAll("postgres://", "").match(names) ?? []).map((name) => ({
        file: file.path,
        what: `names ${name}`,
      })),
    );
}

export function typesAreChecked(files: readonly CodeFile[]): Finding[] {
  return files.filter(isProduct).flatMap((file) => {
    const what = file.comments.flatMap(
      ({ value }) => value.match(/@ts-(?:ignore|expect-error|nocheck)/) ?? [],
    );
    walk(file.program, (node) => {
      if (node.type === "TSAsExpression" && node.typeAnnotation.type === "TSAnyKeyword")
        what.push("as any");
    });
    return what.map((entry) => ({ file: file.path, what: entry }));
  });
}

/** `a.b` of an expression that is `a.b` or ends with it, as text. */
function memberText(node: Node): string | undefined {
  if (node.type !== "MemberExpression" || node.property.type !== "Identifier") return undefined;
  const { object } = node;
  if (object.type === "Identifier") return `${object.name}.${node.property.name}`;
  if (object.type === "MemberExpression" && object.property.type === "Identifier")
    return `${object.property.name}.${node.property.name}`;
  return undefined;
}

const READS_BODY =
  /^(?:req|request|raw)\.(?:text|json|formData|arrayBuffer|blob|bytes|parseBody|body)$|^incoming\.on$/;
/** The reader, what hands it a request's body, and files in which `request` is a stored one or one to a model. */
const BODY_READERS = [
  "core/http/body",
  "http/transport",
  "channel-kit/kit",
  "operate/records/views",
  "agent/thinking",
  "cli/events",
  "testing/store/accept",
  "testing/store/sweep",
].map((name) => `src/${name}.ts`);

/** Bodies of requests are read by one reader, with its limits and its clock. */
export function bodiesHaveOneReader(files: readonly CodeFile[]): Finding[] {
  return files
    .filter(
      (file) => isProduct(file) && file.path.endsWith(".ts") && !BODY_READERS.includes(file.path),
    )
    .flatMap((file) => {
      const what: string[] = [];
      walk(file.program, (node) => {
        const text = memberText(node);
        if (text !== undefined && READS_BODY.test(text)) what.push(text);
      });
      return what.map((entry) => ({ file: file.path, what: entry }));
    });
}

const OF_PROCESS =
  /^process\.(?:env|on|once|off|exit|exitCode|stdout|stderr|stdin|kill|cwd|chdir|argv)$|^Date\.now$|^globalThis\.fetch$/;
const MAY_USE_PROCESS = [
  "src/cli/",
  // Runs in tests alone.
  "src/testing/",
  "src/index.ts",
  "src/core/clock.ts",
  "src/core/process-group.ts",
  // Programs of their own: processes, a thread, the page in a browser, and what starts the build of that page.
  "src/gateway/what-if-child.ts",
  "src/mapping/transforms/transform-worker.ts",
  "src/knowledge/extract/child.ts",
  "src/knowledge/catalog/catalog.ts",
  "src/http/console/assets.ts",
  "console/",
];

/** The use of the process, its clock or its network by an expression, as text; undefined if there is none. */
function takenFromProcess(node: Node, parent: Node | undefined): string | undefined {
  switch (node.type) {
    case "MemberExpression": {
      const text = node.object.type === "Identifier" ? memberText(node) : undefined;
      return text !== undefined && OF_PROCESS.test(text) ? text : undefined;
    }
    case "Literal":
      return node.value === "node:process" && parent?.type === "ImportDeclaration"
        ? node.value
        : undefined;
    case "Identifier":
      return node.name === "systemClock" ? node.name : undefined;
    case "NewExpression":
      return node.callee.type === "Identifier" &&
        node.callee.name === "Date" &&
        node.arguments.length === 0
        ? "new Date()"
        : undefined;
    default:
      return undefined;
  }
}

const isFetch = (node: Node): boolean => node.type === "Identifier" && node.name === "fetch";

/** True if a pattern or a parameter introduces a `fetch` of its own. */
const bindsFetch = (node: Node): boolean =>
  (node.type === "ObjectPattern" &&
    node.properties.some((entry) => entry.type === "Property" && isFetch(entry.value))) ||
  ("params" in node && Array.isArray(node.params) && (node.params as Node[]).some(isFetch));

/** True if a node stands for the value of the name `fetch`: it is no type, no key of a member and no member of a type. */
const readsFetch = (node: Node, parent: Node | undefined): boolean =>
  isFetch(node) &&
  parent !== undefined &&
  !parent.type.startsWith("TS") &&
  !("property" in parent && parent.property === node) &&
  !("key" in parent && parent.key === node);

/** The process, its clock and its network are used by the command line and the library's defaults alone. */
export function processStaysOutside(files: readonly CodeFile[]): Finding[] {
  return files
    .filter(
      (file) => isProduct(file) && !MAY_USE_PROCESS.some((name) => file.path.startsWith(name)),
    )
    .flatMap((file) => {
      const what: string[] = [];
      let isOwn = false;
      let isRead = false;
      walk(file.program, (node, parent) => {
        what.push(...[takenFromProcess(node, parent) ?? []].flat());
        isOwn ||= bindsFetch(node);
        isRead ||= readsFetch(node, parent);
      });
      if (isRead && !isOwn) what.push("fetch");
      return what.map((entry) => ({ file: file.path, what: entry }));
    });
}
