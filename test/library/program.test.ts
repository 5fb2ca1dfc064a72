import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { ownFolder, TOKEN } from "./support.ts";

const ROOT = resolve(import.meta.dirname, "../..");

/** Runs a program with a gateway in it, in a project of its own. */
function runProgram(files: Record<string, string>): {
  code: number | null;
  out: string;
  err: string;
} {
  const dir = ownFolder();
  mkdirSync(join(dir, "node_modules"));
  symlinkSync(ROOT, join(dir, "node_modules", "rouse"));
  mkdirSync(join(dir, "plugins"));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  const args = ["--conditions=rouse-source", "--disable-warning=ExperimentalWarning", "program.js"];
  const env = { PATH: process.env["PATH"] ?? "" };
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: dir,
    encoding: "utf8",
    timeout: 20_000,
    env,
  });
  return { code: status, out: stdout, err: stderr };
}

const CREATE = `import { createGateway } from "rouse";
const gateway = await createGateway({ config: { hooks: { enabled: true, token: "${TOKEN}" } } });
`;

it("createGateway: the program's own modules keep their names, whatever users' modules are loaded", () => {
  const plugin = `import { definePlugin } from "#plugin";
export default definePlugin({ id: "beside", channel: () => ({ send: async () => ({ status: "sent" }) }) });
`;
  const { out, err } = runProgram({
    "package.json": '{ "type": "module", "imports": { "#plugin": "./own.js" } }',
    "own.js": 'export const own = "the program\'s own";\n',
    "plugins/beside.js": plugin,
    "program.js": `${CREATE}console.log(gateway.status().warnings.map(({ path }) => path).join());
console.log((await import("#plugin")).own);
await import("zod").catch(({ code }) => console.log(code));
await gateway.stop();
`,
  });
  expect([out, err]).toEqual(["plugins/beside.js\nthe program's own\nERR_MODULE_NOT_FOUND\n", ""]);
});

it("createGateway: the process lives until the gateway is stopped, and then ends by itself", () => {
  const { code, out, err } = runProgram({
    "package.json": '{ "type": "module" }',
    "program.js": `${CREATE}await gateway.start();
gateway.on("run.ended", async ({ status }) => {
  console.log(status);
  await gateway.stop();
  console.log("stopped");
});
const headers = { authorization: "Bearer ${TOKEN}", "content-type": "application/json" };
await gateway.fetch(new Request("http://localhost/hooks/agent", { method: "POST", headers, body: '{"message":"hi","deliver":false}' }));
`,
  });
  expect([code, out.split("\n").slice(0, 1), out.includes("stopped\n"), err]).toEqual([
    0,
    ["succeeded"],
    true,
    "",
  ]);
});
