/** Builds the package: small JavaScript and the types of its entries in dist/, from the TypeScript that a clone runs as it is. */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync } from "node:zlib";
import { minifySync } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const dist = join(root, "dist");
const built = (pattern: string): string[] => globSync(join(dist, pattern));

function run(command: string, ...args: string[]): void {
  // Vite builds a page for development if it finds another one, as under Vitest.
  const env = { ...process.env, NODE_ENV: "production" };
  const { status } = spawnSync(command, args, { cwd: root, env, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

/** Functions and classes keep their names, so that a stack trace says where an error happened. */
function minifyModules(): void {
  for (const file of built("{src,plugins}/**/*.js")) {
    const { code, errors } = minifySync(file, readFileSync(file, "utf8"), {
      module: true,
      compress: { keepNames: { function: true, class: true } },
      mangle: { keepNames: true },
    });
    if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`);
    writeFileSync(file, code);
  }
}

/** Removes the declarations that no entry of the package leads to. */
function pruneDeclarations(): void {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    exports: Record<string, { types?: string }>;
  };
  const reached = new Set(
    Object.values(exports).flatMap(({ types }) => (types ? [join(root, types)] : [])),
  );
  // A set also goes through what is added on the way.
  for (const file of reached)
    for (const [, name = ""] of readFileSync(file, "utf8").matchAll(
      /(?:\bfrom |\bimport\(|\bimport )"(\.[^"]+)\.[jt]s"/g,
    ))
      if (existsSync(join(dirname(file), `${name}.d.ts`)))
        reached.add(join(dirname(file), `${name}.d.ts`));
  for (const file of built("**/*.d.ts")) if (!reached.has(file)) rmSync(file);
}

/** The parts of the operator's page are kept as browsers get them. */
function compressPage(): void {
  for (const file of built("console/assets/*")) {
    writeFileSync(`${file}.br`, brotliCompressSync(readFileSync(file)));
    rmSync(file);
  }
}

rmSync(dist, { recursive: true, force: true });
run("tsc", "-p", "tsconfig.build.json");
minifyModules();
pruneDeclarations();
// The sign-in page and the phrases are not compiled.
for (const folder of ["src/http/console", "src/vocabulary/phrases"])
  cpSync(join(root, folder), join(dist, folder), {
    recursive: true,
    filter: (source) => !source.endsWith(".ts"),
  });
run("vite", "build", "console", "--logLevel", "warn");
compressPage();
