import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";

const BIN = resolve(import.meta.dirname, "../../bin/rouse.js");
/** Makes this Node say that it is an older one. */
const OLD =
  'data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.19.0"}})';
let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "rouse-old-node-"));
  // As npx prints it, once it has fetched a Node.
  writeFileSync(
    join(dir, "npx"),
    `#!/bin/sh\n[ "$2" = --package=node@24 ] && echo ${process.execPath}\n`,
    { mode: 0o755 },
  );
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const start = (env: Record<string, string>) =>
  promisify(execFile)(process.execPath, ["--import", OLD, BIN, "--no-such-option"], {
    env: { ...process.env, PATH: `${dir}:${process.env["PATH"]}`, npm_command: "", ...env },
  }).catch((error: unknown) => error as { code: number; stderr: string });

it("under an older Node, `npx rouse` runs with one that npx fetches", async () => {
  const ended = await start({ npm_command: "exec" });
  // It is Rouse that refuses the option: what it was given and its exit code pass through.
  expect(ended).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(
      /^rouse: needs Node 24, this is 20\.19\.0: .*`npm i node@24`.*\n.*--no-such-option/,
    ) as unknown,
  });
});

it.each([
  ["a service", {}],
  ["`npx rouse` without a network", { npm_command: "exec", PATH: "/nowhere" }],
])("under an older Node, %s says what to install", async (_, env) => {
  expect(await start(env)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /rouse: needs Node 24 or newer, this is 20\.19\.0\. .*`npm i node@24` is enough\.\n$/,
    ) as unknown,
  });
});
