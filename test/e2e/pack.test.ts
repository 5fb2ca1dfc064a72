import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { followTour } from "./readme.ts";
import { startProgram } from "./program.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const TOKEN = "packed-hook-token-0123456789";
let dir: string;
let tarball: string;
const run = (command: string, args: string[], cwd: string): string =>
  execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
const write = (name: string, text: string): void => writeFileSync(join(dir, name), text);

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-pack-"));
  const packed = JSON.parse(run("npm", ["pack", "--json", "--pack-destination", dir], ROOT)) as { filename: string }[];
  tarball = packed[0]?.filename ?? "";
  write("package.json", '{ "private": true }');
  run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", join(dir, tarball)], dir);
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
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "filelog",
  config: z.strictObject({ path: z.string() }),
  channel: ({ config }) => ({
    defaultTo: "all",
    fallback: true,
    send: async ({ to, text }) => {
      await appendFile(config.path, to + ": " + text + "\\n");
      return { status: "sent" };
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
}, 180_000);
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
      expect([answer.status, ((await answer.json()) as { mapping?: string }).mapping]).toEqual([202, "shout"]);
      expect((await fetch(`${program.url}/console/style.css`)).status).toBe(200);
      const operator = { authorization: `Bearer ${readFileSync(join(dir, ".rouse", "gateway-token"), "utf8").trim()}` };
      for (const file of ["", "/app.js", "/dom.js", "/views.js"])
        expect([file, (await fetch(`${program.url}/console${file}`, { headers: operator })).status]).toEqual([file, 200]);
      const log = join(dir, "replies.log");
      for (let i = 0; i < 300 && !existsSync(log); i++) await new Promise((done) => setTimeout(done, 50));
      expect(readFileSync(log, "utf8")).toContain("HELLO!");
      const mappings = JSON.parse(run("npx", ["rouse", "hooks", "list", "--json"], dir)) as unknown;
      expect(JSON.stringify(mappings)).toContain("github.issue");
    } finally {
      await program.stop();
    }
  }, 90_000);

  it("lets a new user follow README's tour, with the types of the files that it makes", async () => {
    const folder = join(dir, "tour");
    mkdirSync(folder);
    write("tour/package.json", '{ "private": true, "type": "module" }');
    run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", join(dir, tarball)], folder);
    await followTour({ home: dir, folder, instead: `cd ${folder}; rouse() { npx rouse "$@"; }` });
    expect(run(join(ROOT, "node_modules/.bin/tsc"), ["-p", ".", "--typeRoots", join(ROOT, "node_modules/@types")], folder)).toBe("");
  }, 180_000);

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
});
