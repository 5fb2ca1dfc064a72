import { spawnSync } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { startProgram } from "../e2e/program.ts";
import { createCli, shopConfig, TOKEN, type CliWorld } from "./world.ts";

const ROUSE = resolve(import.meta.dirname, "../../bin/rouse.js");
const hasScript = spawnSync("script", ["--version"]).status === 0;
const CANARY = "canary-of-the-body";

let cli: CliWorld;
let provider: Provider;
beforeAll(async () => {
  cli = await createCli();
  provider = await createProvider();
  provider.answer = (request, response) =>
    provider.text(request).includes("refuse")
      ? void response.writeHead(400).end(CANARY)
      : `${CANARY} is done`;
  const shop = shopConfig() as { hooks: { mappings: object[] } };
  const [order = {}] = shop.hooks.mappings;
  const mappings = [
    { ...order, wakeMode: "next-heartbeat", to: "ops", channel: "console" },
    { id: "broken", match: { path: "broken" }, transform: { module: "broken.ts" } },
  ];
  await mkdir(join(cli.dir, "transforms"));
  await cli.write("transforms/broken.ts", `export default ({ payload }) => { throw payload.id; };`);
  await cli.write("rouse.json5", {
    ...shop,
    ...modelConfig(provider),
    hooks: { ...shop.hooks, mappings },
  });
});
afterAll(async () => {
  await cli.close();
  await provider.close();
});

/** Starts the program, posts what each kind of line is about, and returns its output once all has ended. */
async function output(command: string, args: string[], last: RegExp[]): Promise<string> {
  const program = await startProgram(command, args, {
    cwd: cli.dir,
    env: { NO_COLOR: "1", TERM: "xterm" },
  });
  const post = (path: string, body: object, token = TOKEN): Promise<Response> =>
    fetch(`${program.url}/hooks/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  try {
    for (const name of [CANARY, `${CANARY} refuse`])
      await post("shop", { type: "order", id: name, customer: { name } });
    await post("shop", { type: "refund", id: CANARY });
    await post("broken", { id: CANARY });
    await post("shop", {}, "another-token");
    await post("wake", { text: CANARY, mode: "next-heartbeat" });
    for (const each of last) await expect.poll(program.output, { timeout: 30_000 }).toMatch(each);
    await expect.poll(program.output, { timeout: 30_000 }).toMatch(/run_\w+.*failed/);
    await expect
      .poll(program.output, { timeout: 30_000 })
      .toMatch(/run_\w+.*succeeded|a run ended/);
  } finally {
    await program.kill();
  }
  return program.output().replaceAll("\r\n", "\n");
}

describe("`rouse start`", () => {
  it.skipIf(!hasScript)(
    "says on a terminal in a line each what hooks, runs and deliveries came to",
    async () => {
      const all = await output(
        "script",
        ["-qec", `'${process.execPath}' '${ROUSE}' start`, "/dev/null"],
        [/→ console/, /POST wake 200/],
      );
      const lines = all.split("\n").filter((line) => /^\d\d:\d\d:\d\d /.test(line));
      const shown = lines
        .map((line) => line.slice(9).replaceAll(/\b(run|evt|sev)_[0-9a-v]{35}/g, "<$1>"))
        .map((line) => line.replaceAll(/\d+\.\d s/g, "<time>"));
      expect(shown).toEqual(
        expect.arrayContaining([
          "info  POST shop 202 shop.order → <run>",
          "info  <run> succeeded <time>",
          "info  <run> → console <time>",
          expect.stringMatching(/^warn {2}<run> failed <time>: provider_refused: .+/),
          "info  POST shop 200 unmatched (<evt>)",
          expect.stringMatching(/^warn {2}POST broken 500 broken transform_failed: .+ \(<evt>\)$/),
          "info  POST /hooks/shop 401 unauthorized  address=127.0.0.1",
          "info  POST wake 200 → <sev>",
        ]),
      );
      expect(lines.filter((line) => line.includes(" ended"))).toEqual([]);
      expect(lines.join("\n")).not.toMatch(/[{}]|canary/);
    },
  );

  it("writes JSON lines where standard error is no terminal", async () => {
    const all = await output(process.execPath, [ROUSE, "start"], [/a delivery ended/]);
    const messages = all
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line) => (JSON.parse(line) as { msg: string }).msg);
    expect(messages).toEqual(
      expect.arrayContaining(["a run ended", "a delivery ended", "a request was rejected"]),
    );
    expect(all).not.toMatch(/^\d\d:\d\d:\d\d |→/m);
  });
});
