import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startProgram, type Program } from "../e2e/program.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const PARTS = [
  "bin",
  "src",
  "plugins",
  "mappings",
  "transforms",
  "console",
  "package.json",
  "tsconfig.json",
];
let dir: string;
const programs: Program[] = [];

/** A copy of what a clone runs, with the installed packages linked into a folder of its own: builds go into that one's cache. */
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-clone-"));
  for (const part of PARTS) cpSync(join(ROOT, part), join(dir, "clone", part), { recursive: true });
  mkdirSync(join(dir, "clone/node_modules"));
  for (const name of readdirSync(join(ROOT, "node_modules")))
    if (name !== ".cache")
      symlinkSync(join(ROOT, "node_modules", name), join(dir, "clone/node_modules", name));
});
afterAll(async () => {
  await Promise.all(programs.map((program) => program.stop()));
  rmSync(dir, { recursive: true, force: true });
});

/** Starts a gateway of the clone in a folder of its own. Returns how to ask for the page as its operator. */
async function startGateway(
  name: string,
): Promise<(path: string) => Promise<{ status: number; text: string }>> {
  const cwd = join(dir, name);
  mkdirSync(cwd);
  writeFileSync(
    join(cwd, "rouse.json5"),
    JSON.stringify({
      gateway: { port: 0 },
      hooks: { enabled: true, token: "a-hook-token-0123456789" },
    }),
  );
  const program = await startProgram(process.execPath, [join(dir, "clone/bin/rouse.js"), "start"], {
    cwd,
  });
  programs.push(program);
  const token = readFileSync(join(cwd, ".rouse/gateway-token"), "utf8").trim();
  return async (path) => {
    const response = await fetch(program.url + path, {
      headers: { authorization: `Bearer ${token}` },
    });
    return { status: response.status, text: await response.text() };
  };
}

const builds = (): string[] => readdirSync(join(dir, "clone/node_modules/.cache/rouse-console"));

it("console in a clone: the first visit builds the page, also for two gateways together, and shows why a build fails", async () => {
  const [one, other] = await Promise.all([startGateway("one"), startGateway("other")]);
  const shown = await Promise.all([one("/console"), other("/console")]);
  for (const { status, text } of shown)
    expect([status, text]).toEqual([200, expect.stringContaining('<div id="app">')]);
  // Both built. The first build serves both, and nothing is left of the other.
  expect(builds()).toHaveLength(1);
  const script = /src="(\/console\/assets\/[^"]+\.js)"/.exec(shown[0].text)?.[1] ?? "";
  for (const ask of [one, other]) expect((await ask(script)).status).toBe(200);

  // A gateway that starts while the page is open serves the parts of the page that are asked for later.
  const third = await startGateway("third");
  expect((await third(script)).status).toBe(200);

  const source = join(dir, "clone/console/src/app.tsx");
  const good = readFileSync(source, "utf8");
  writeFileSync(source, `${good}\nconst <broken> = 1;\n`);
  const last = await startGateway("last");
  const failed = await last("/console");
  expect(failed.status).toBe(500);
  expect(failed.text).toContain("The console could not be built.");
  expect(failed.text).toMatch(/app\.tsx/);
  expect(failed.text).not.toContain("\u001B");
  // The next visit tries again.
  writeFileSync(source, `${good}\n// repaired\n`);
  expect((await last("/console")).status).toBe(200);
});
