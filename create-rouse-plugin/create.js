import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";

const TEMPLATES = join(import.meta.dirname, "templates");
const own = JSON.parse(readFileSync(join(import.meta.dirname, "package.json"), "utf8"));

/** What a plugin can offer, and a line for the help. */
export const KINDS = {
  channel: "a place where replies go, and where people write to the agent",
  source: "events that are pulled from outside",
  preset: "mappings for the webhooks of a sender",
  scheme: "how a sender signs its requests",
  transform: "code that makes work of a payload",
  tool: "what agents can do, in TypeScript",
  context: "text that is added to each turn",
  provider: "models of a vendor",
  extractor: "a document format for knowledge",
  routes: "HTTP routes below /plugins/<id>",
};

const USAGE = `Makes a plugin for Rouse.

Usage:
  npm create rouse-plugin <id> -- --kind <kind>

Kinds:
${Object.entries(KINDS)
  .map(([kind, summary]) => `  ${kind.padEnd(10)} ${summary}`)
  .join("\n")}

Options:
  --kind <kind>    what the plugin offers
  --rouse <spec>   the Rouse to develop with: a version, or file:<path of a packed Rouse>. Default: ^${own.version}
  --help           print this help

Example:
  npm create rouse-plugin acme -- --kind channel
`;

const ID = /^[a-z][a-z0-9-]{0,39}$/;

/** Puts the plugin's id in the place of the templates' `acme`. */
function rename(text, id) {
  const title = id
    .split("-")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join(" ");
  const key = /^\w+$/.test(id) ? id : `"${id}"`;
  return text
    .replace(/(?<![\w"/.-])acme:(?=\s)/g, `${key}:`)
    .replaceAll(/\bacme\b/g, id)
    .replaceAll(/\bAcme\b/g, title)
    .replaceAll(/\bACME(?=_)/g, id.toUpperCase().replaceAll("-", "_"));
}

function filesIn(folder) {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
    statSync(join(folder, name)).isFile(),
  );
}

const json = (value) => `${JSON.stringify(value, null, 2)}\n`;

function manifest(id, code, rouse) {
  const { "@ai-sdk/openai-compatible": provider, zod, ...devDependencies } = own.generated;
  const dependencies = code.includes("@ai-sdk/openai-compatible")
    ? { "@ai-sdk/openai-compatible": provider }
    : undefined;
  const usesZod = code.includes('from "zod"');
  return json({
    name: `rouse-plugin-${id}`,
    version: "0.1.0",
    description: `A plugin for Rouse: ${id}`,
    keywords: ["rouse", "rouse-plugin"],
    type: "module",
    exports: { types: "./dist/index.d.ts", default: "./dist/index.js" },
    files: ["dist", "!dist/**/*.test.*"],
    scripts: {
      build: "tsc",
      prepack: "npm run build",
      test: "vitest run",
      typecheck: "tsc --noEmit",
    },
    ...(dependencies && { dependencies }),
    peerDependencies: { rouse: `>=${own.version}`, ...(usesZod && { zod: "^4.0.0" }) },
    devDependencies: { ...devDependencies, rouse, ...(usesZod && { zod }) },
    // The package `node` brings the Node 24 that the tests run with, by a script; so does esbuild.
    allowScripts: { esbuild: true, node: true },
  });
}

function compilerOptions(code) {
  return json({
    compilerOptions: {
      target: "es2024",
      module: "nodenext",
      types: ["node"],
      strict: true,
      noUncheckedIndexedAccess: true,
      verbatimModuleSyntax: true,
      rewriteRelativeImportExtensions: true,
      declaration: true,
      rootDir: "src",
      outDir: "dist",
      // The types of model packages name packages that they do not bring along.
      ...(code.includes("@ai-sdk/") && { skipLibCheck: true }),
    },
    include: ["src"],
  });
}

const readme = (id, about) => `# rouse-plugin-${id}

${about.trim()}

## Develop

\`\`\`sh
npm install
npm test
\`\`\`

Any Node from 20 on is enough: npm installs the Node 24 that the tests run with. The test calls the suite of \`rouse/testing\` that every plugin of this kind passes. It needs no network.

## Use it

\`\`\`sh
npm pack
rouse plugins add ./rouse-plugin-${id}-0.1.0.tgz
\`\`\`

\`rouse plugins add rouse-plugin-${id}\` does the same once it is published. Rouse pins the version and the content, and loads nothing else.
`;

/** The files of a new plugin, by their names. */
export function createFiles(id, kind, rouse = `^${own.version}`) {
  const folder = join(TEMPLATES, kind);
  const texts = new Map(
    filesIn(folder).map((name) => [name, rename(readFileSync(join(folder, name), "utf8"), id)]),
  );
  const code = [...texts].map(([name, text]) => (name.endsWith(".ts") ? text : "")).join("\n");
  texts.set("README.md", readme(id, texts.get("README.md") ?? ""));
  texts.set("package.json", manifest(id, code, rouse));
  texts.set("tsconfig.json", compilerOptions(code));
  texts.set(".gitignore", "node_modules/\ndist/\n*.tgz\n");
  return texts;
}

/** Asks for what was not given; undefined if nobody can answer. */
async function complete(given, { ask, out }) {
  if ((given.name && given.kind) || !ask) return given;
  const name =
    given.name ?? (await ask("The plugin's id (lower-case letters, digits and -): ")).trim();
  if (given.kind) return { ...given, name };
  out(
    `${Object.entries(KINDS)
      .map(([kind, summary]) => `  ${kind.padEnd(10)} ${summary}`)
      .join("\n")}\n`,
  );
  return { ...given, name, kind: (await ask("What it offers: ")).trim() };
}

function findProblem({ name, kind }, cwd) {
  if (!name || !kind) return `name the plugin and its kind\n\n${USAGE}`;
  if (!ID.test(name.replace(/^rouse-plugin-/, "")))
    return `"${name}" is no id of a plugin: use lower-case letters, digits and "-"\n`;
  if (!Object.hasOwn(KINDS, kind))
    return `there is no kind "${kind}"; the kinds are ${Object.keys(KINDS).join(", ")}\n`;
  const folder = resolve(cwd, name);
  if (existsSync(folder) && (!statSync(folder).isDirectory() || readdirSync(folder).length > 0))
    return `${folder} is there already and not empty: choose another id, or remove it\n`;
  return undefined;
}

function parse(argv) {
  const options = {
    kind: { type: "string" },
    rouse: { type: "string" },
    help: { type: "boolean", short: "h" },
  };
  const { values, positionals } = parseArgs({ args: argv, options, allowPositionals: true });
  if (positionals.length > 1) throw new Error(`unexpected argument "${positionals[1]}"`);
  return { ...values, name: positionals[0] };
}

/**
 * Makes a plugin in a folder of the working folder.
 * @returns the exit code: 0 success, 1 the folder is there already, 2 wrong usage.
 */
export async function main(argv, io) {
  let given;
  try {
    given = parse(argv);
  } catch (error) {
    io.err(`create-rouse-plugin: ${error.message}\n\n${USAGE}`);
    return 2;
  }
  if (given.help) {
    io.out(USAGE);
    return 0;
  }
  const wanted = await complete(given, io);
  const problem = findProblem(wanted, io.cwd);
  if (problem) {
    io.err(`create-rouse-plugin: ${problem}`);
    return problem.includes(" is there already ") ? 1 : 2;
  }
  const folder = resolve(io.cwd, wanted.name);
  for (const [name, text] of createFiles(
    wanted.name.replace(/^rouse-plugin-/, ""),
    wanted.kind,
    wanted.rouse,
  )) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text, { flag: "wx" });
  }
  io.out(
    `Made a ${wanted.kind} plugin in ${folder}.\n\nNext:\n  cd ${relative(io.cwd, folder)}\n  npm install\n  npm test\n`,
  );
  return 0;
}
