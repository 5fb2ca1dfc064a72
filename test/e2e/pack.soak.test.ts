import { execFileSync, spawnSync } from "node:child_process";
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { FILES, writePage } from "../library/page.ts";
import { followTour } from "./readme.ts";
import { startProgram } from "./program.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TOKEN = "packed-hook-token-0123456789";
/** The compressed size that the console may add to the package, and that of one part of it (the editor is the largest). */
const MAX_CONSOLE_BYTES = 300 * 1024;
const MAX_PART_BYTES = 175 * 1024;
/** The package as it is downloaded, and all that is installed with it but for the optional packages. */
const MAX_PACKED_BYTES = 1.5 * 1024 * 1024;
const MAX_INSTALLED_MB = 100;
let dir: string;
let tarball: string;
const run = (command: string, args: string[], cwd: string): string =>
  execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const write = (name: string, text: string): void => writeFileSync(join(dir, name), text);

/** The first visit of the operator's page: it is there at once, small, and its parts are kept by the browser. */
async function expectConsole(url: string, headers: Record<string, string>): Promise<void> {
  const read = async (path: string, encoding: string) => {
    const response = await fetch(url + path, {
      headers: { ...headers, "accept-encoding": encoding },
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text };
  };
  const page = await read("/console", "identity");
  expect([page.status, page.text]).toEqual([200, expect.stringContaining('<div id="app">')]);
  const assets = page.text.match(/\/console\/assets\/[\w.-]+/g) ?? [];
  expect(assets.map((name) => name.slice(name.lastIndexOf(".")))).toEqual(
    expect.arrayContaining([".js", ".css"]),
  );
  for (const asset of assets)
    for (const encoding of ["br", "gzip"]) {
      const part = await read(asset, encoding);
      expect([asset, part.status, part.headers.get("content-encoding")]).toEqual([
        asset,
        200,
        encoding,
      ]);
      expect(part.headers.get("cache-control")).toBe("private, max-age=31536000, immutable");
      expect(part.text).toBe((await read(asset, "identity")).text);
    }
}

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-pack-"));
  const packed = JSON.parse(run("npm", ["pack", "--json", "--pack-destination", dir], ROOT)) as {
    filename: string;
  }[];
  tarball = join(dir, packed[0]?.filename ?? "");
  write("package.json", '{ "private": true }');
  run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", tarball], dir);
  mkdirSync(join(dir, "transforms"));
  mkdirSync(join(dir, "plugins", "filelog"), { recursive: true });
  write(
    "transforms/shout.ts",
    `import type { Transform } from "rouse/transform";
import { defineTransform } from "rouse/transform";
enum Mark { Loud = "!" }
const transform: Transform = ({ payload }) => (payload.skip ? null : { message: String(payload.text).toUpperCase() + Mark.Loud });
export default defineTransform(transform);
`,
  );
  write(
    "plugins/filelog/index.ts",
    `import { appendFile } from "node:fs/promises";
import { z } from "zod";
import { sentResult } from "rouse/channel-kit";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "filelog",
  config: z.strictObject({ path: z.string() }),
  channel: ({ config }) => ({
    defaultTo: "all",
    fallback: true,
    send: async ({ to, text }) => {
      await appendFile(config.path, to + ": " + text + "\\n");
      return sentResult();
    },
  }),
});
`,
  );
  write(
    "rouse.json5",
    JSON.stringify({
      gateway: { port: 0 },
      hooks: {
        enabled: true,
        token: TOKEN,
        presets: [{ use: "github", auth: "token" }],
        mappings: [{ id: "shout", match: { path: "shout" }, transform: { module: "shout.ts" } }],
      },
      channels: { filelog: { path: join(dir, "replies.log") } },
    }),
  );
}, 600_000);
afterAll(() => rmSync(dir, { recursive: true, force: true }), 120_000);

describe("the package, installed in an empty folder", () => {
  it("runs with transforms and plugins beside its config", async () => {
    const program = await startProgram("npx", ["rouse", "start"], { cwd: dir });
    try {
      const answer = await fetch(`${program.url}/hooks/shout`, {
        method: "POST",
        headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
        body: '{"text":"hello"}',
      });
      expect([answer.status, ((await answer.json()) as { mapping?: string }).mapping]).toEqual([
        202,
        "shout",
      ]);
      expect((await fetch(`${program.url}/console/style.css`)).status).toBe(200);
      const operator = {
        authorization: `Bearer ${readFileSync(join(dir, ".rouse", "gateway-token"), "utf8").trim()}`,
      };
      await expectConsole(program.url, operator);
      const log = join(dir, "replies.log");
      // The file is there before its first line is.
      await vi.waitFor(() => expect(readFileSync(log, "utf8")).toContain("HELLO!"), {
        timeout: 15_000,
      });
      const mappings = JSON.parse(run("npx", ["rouse", "hooks", "--json"], dir)) as unknown;
      expect(JSON.stringify(mappings)).toContain("github.issue");
    } finally {
      await program.stop();
    }
  });

  it("has the operator's page within its limits of size, and none of the packages that it is built from", () => {
    const folder = join(dir, "node_modules/rouse/dist/console");
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    );
    const sizes = files.map(({ parentPath, name }) => statSync(join(parentPath, name)).size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(MAX_CONSOLE_BYTES);
    expect(Math.max(...sizes)).toBeLessThan(MAX_PART_BYTES);
    const { dependencies, optionalDependencies } = JSON.parse(
      readFileSync(join(ROOT, "package.json"), "utf8"),
    ) as Record<string, object>;
    const runtime = Object.keys({ ...dependencies, ...optionalDependencies });
    const installed = (name: string): boolean => existsSync(join(dir, "node_modules", name));
    const builtFrom = [
      "preact",
      "vite",
      "@preact/signals",
      "@tanstack/virtual-core",
      "@codemirror/view",
      "codemirror-json5",
      "axe-core",
    ];
    expect(builtFrom.filter((name) => runtime.includes(name) || installed(name))).toEqual([]);
  });

  it("has no link that leads nowhere, and none to a picture that is not there", () => {
    const { repository } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      repository: { url: string };
    };
    const address = repository.url.slice("git+".length, -".git".length);
    const folder = join(dir, "node_modules/rouse");
    const pages = globSync("**/*.md", { cwd: folder });
    const links = pages.flatMap((page) =>
      [...readFileSync(join(folder, page), "utf8").matchAll(/\]\(([^)#\s]+)/g)].map(
        ([, link = ""]) => ({ page, link }),
      ),
    );
    const isThere = ({ page, link }: { page: string; link: string }): boolean => {
      const [, path] = link.split(/\/(?:raw|blob)\/HEAD\//);
      if (path !== undefined) return link.startsWith(address) && existsSync(join(ROOT, path));
      return /^[a-z]+:/.test(link) || existsSync(join(folder, dirname(page), link));
    };
    expect(links.filter((link) => !isThere(link))).toEqual([]);
    expect(links.filter(({ link }) => link.startsWith(`${address}/raw/`)).length).toBeGreaterThan(
      3,
    );
    // The pages of the repository are as they were.
    expect(readFileSync(join(ROOT, "README.md"), "utf8")).not.toContain(address);
  });

  it("lets a new user follow the guides, with the types of the files that it makes", async () => {
    const folder = join(dir, "tour");
    mkdirSync(folder);
    write("tour/package.json", '{ "private": true, "type": "module" }');
    // As a second installation would make it.
    symlinkSync(join(dir, "node_modules"), join(folder, "node_modules"));
    await followTour({
      home: dir,
      folder,
      instead: `cd ${folder}; rouse() { node_modules/.bin/rouse "$@"; }`,
    });
    expect(
      run(
        join(ROOT, "node_modules/.bin/tsc"),
        ["-p", ".", "--typeRoots", join(ROOT, "node_modules/@types")],
        folder,
      ),
    ).toBe("");
  }, 180_000);

  it("is a library: a hook through its fetch, the delivery through a plugin in the program, in strict TypeScript", () => {
    const folder = join(dir, "embedding");
    mkdirSync(folder);
    write("embedding/package.json", '{ "private": true, "type": "module" }');
    const program = `import { createGateway, defineConfig, definePlugin, RouseError, type Gateway } from "rouse";
const config = defineConfig({ hooks: { enabled: true, token: "${TOKEN}" } });
const printer = definePlugin({
  id: "printer",
  channel: () => ({
    defaultTo: "everybody",
    async send({ to, text }) {
      console.log(to + ": " + text);
      return { status: "sent" };
    },
  }),
});
const gateway: Gateway = await createGateway({ config, plugins: [printer], env: {} });
await gateway.start();
const delivered = new Promise((resolve) => gateway.on("delivery.ended", ({ status }) => resolve(status)));
const headers = { authorization: "Bearer ${TOKEN}", "content-type": "application/json" };
const answer = await gateway.fetch(
  new Request("http://localhost/hooks/agent", { method: "POST", headers, body: JSON.stringify({ message: "from the program" }) }),
);
console.log(answer.status, await delivered);
await gateway.stop();
const wrong: unknown = await createGateway({ config: { hooks: { enabled: true } } }).catch((error: unknown) => error);
console.log(wrong instanceof RouseError && wrong.code);
`;
    write("embedding/program.ts", program);
    const tsc = (options: object, files: string[]): string => {
      const compilerOptions = {
        module: "nodenext",
        target: "es2024",
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
        ...options,
      };
      write("embedding/tsconfig.json", JSON.stringify({ compilerOptions, files }));
      return spawnSync(join(ROOT, "node_modules/.bin/tsc"), ["-p", "."], {
        cwd: folder,
        encoding: "utf8",
      }).stdout;
    };
    expect(tsc({ types: [], skipLibCheck: false }, ["program.ts"])).toBe("");
    const output = run(
      process.execPath,
      ["--disable-warning=ExperimentalWarning", "program.ts"],
      folder,
    );
    expect(output).toMatch(/^everybody: .*from the program.*^202 delivered\nconfig_invalid\n$/ms);

    write(
      "embedding/wrong.ts",
      program.replace("enabled: true", 'enabled: "yes"').replace("delivery.ended", "delivery.end"),
    );
    expect(tsc({ types: [] }, ["wrong.ts"])).toMatch(/^wrong\.ts\(2,.*^wrong\.ts\(15,/ms);
    writePage(folder);
    const ofNode = {
      types: ["node"],
      typeRoots: [join(ROOT, "node_modules/@types")],
      allowImportingTsExtensions: true,
    };
    expect(
      tsc(
        { ...ofNode, skipLibCheck: true },
        FILES.map(({ name }) => name),
      ),
    ).toBe("");
  });

  it("does not bring what exports traces, and says how to install it", () => {
    write(
      "traces.json5",
      JSON.stringify({ telemetry: { otlp: { url: "http://localhost:4318" } } }),
    );
    const { status, stdout, stderr } = spawnSync(
      "npx",
      ["rouse", "config", "validate", "-c", "traces.json5"],
      {
        cwd: dir,
        encoding: "utf8",
      },
    );
    expect([status, stdout + stderr]).toEqual([
      1,
      expect.stringMatching(/telemetry\.otlp: .*npm install .*@opentelemetry\/sdk-trace@3/),
    ]);
  });

  it("brings its stores", () => {
    const folder = join(dir, "stores");
    mkdirSync(folder);
    // Nothing listens on this port: the plugin was found and loaded, and its client asked.
    write("stores/rouse.json5", JSON.stringify({ store: { url: "postgres://127.0.0.1:9/none" } }));
    const { status, stderr } = spawnSync("npx", ["rouse", "store"], {
      cwd: folder,
      encoding: "utf8",
    });
    expect([status, stderr]).toEqual([
      1,
      expect.stringMatching(/127\.0\.0\.1:9\/none.* cannot be used just now \(ECONNREFUSED\)/),
    ]);
  });

  it("gives users' files their types", () => {
    write(
      "tsconfig.json",
      '{ "compilerOptions": { "module": "nodenext", "target": "es2024", "strict": true, "noEmit": true, "types": [], "skipLibCheck": false }, "files": ["transforms/shout.ts"] }',
    );
    expect(run(join(ROOT, "node_modules/.bin/tsc"), ["-p", "."], dir)).toBe("");
    write(
      "transforms/wrong.ts",
      'import type { Transform } from "rouse/transform";\nconst t: Transform = () => ({ mesage: "x" });\nexport default t;\n',
    );
    write(
      "tsconfig.json",
      '{ "compilerOptions": { "module": "nodenext", "target": "es2024", "strict": true, "noEmit": true, "types": [] }, "files": ["transforms/wrong.ts"] }',
    );
    expect(() => run(join(ROOT, "node_modules/.bin/tsc"), ["-p", "."], dir)).toThrow();
  });

  // The last one, as it removes packages.
  it("is small: as it is downloaded, and as it is installed without the optional packages", () => {
    expect(statSync(tarball).size).toBeLessThan(MAX_PACKED_BYTES);
    run("npm", ["prune", "--omit=optional", "--no-audit", "--no-fund", "--offline"], dir);
    expect(existsSync(join(dir, "node_modules/grammy"))).toBe(false);
    expect(Number.parseInt(run("du", ["-sm", "node_modules"], dir), 10)).toBeLessThanOrEqual(
      MAX_INSTALLED_MB,
    );
  });
});
