import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { CliIo } from "../../src/cli/io.ts";
import { watchPlaces } from "../../src/cli/tests/watch-places.ts";
import { createCli, TOKEN, type CliWorld } from "./world.ts";

let cli: CliWorld;
beforeEach(async () => {
  cli = await createCli();
  for (const folder of ["tests/shop", "mappings", "transforms"])
    await mkdir(join(cli.dir, folder), { recursive: true });
});
afterEach(() => cli.close());

const config = (hooks: object = {}): object => ({
  hooks: { enabled: true, token: TOKEN, ...hooks },
});
const mapping = (messageTemplate: string): object => ({
  id: "own",
  mappings: [{ id: "own.order", match: { path: "shop" }, messageTemplate }],
});
const byModule = {
  id: "own",
  mappings: [{ id: "own.order", match: { path: "shop" }, transform: { module: "a.ts" } }],
};
const toModule = (message: string): string =>
  `import { prefix } from "./lib.ts";\nexport default (): { message: string } => ({ message: prefix + ${JSON.stringify(message)} });`;
const fixture = (text: string): object => ({
  request: { path: "shop", json: { id: 7 } },
  receivedAt: "2026-01-02T03:04:05Z",
  expect: { outcome: "accepted", actions: [{ contains: [text] }] },
});

/** What one run printed: its sum, or the problem of the config. */
const SUM = /^(?:\d+ fixtures?: .*)$/gm;
const WAITING = "waiting for changes; Ctrl-C ends\n";

async function goOn(
  change: (() => Promise<unknown>) | undefined,
  interrupt: () => void,
): Promise<void> {
  // What a wrong watcher would run again on its own has time to do so before the end.
  await sleep(change ? 50 : 700);
  if (change) await change();
  else interrupt();
}

/** Runs `rouse test --watch`; after each run it makes the next change, and after the last one presses Ctrl-C. */
async function watch(changes: (() => Promise<unknown>)[], args: string[] = []) {
  let interrupt = (): void => undefined;
  let runs = 0;
  const ended = cli.rouse(["test", "--watch", ...args], {
    onErr(err, press) {
      interrupt = press;
      const now = err.split(WAITING).length - 1;
      if (now === runs) return;
      runs = now;
      void goOn(changes[runs - 1], () => interrupt());
    },
  });
  const { code, out, err } = await ended;
  return { code, sums: out.match(SUM) ?? [], err, runs };
}

const PASSED = "1 fixture: 1 as expected";
const FAILED = "1 fixture: 1 differs";

describe("rouse test --watch", () => {
  it("runs again when a fixture, a mapping file, the config, a module or what a module imports changes", async () => {
    await cli.write("rouse.json5", config());
    await cli.write("mappings/own.json5", mapping("Order {{id}}"));
    await cli.write("transforms/lib.ts", 'export const prefix = "By ";');
    await cli.write("transforms/a.ts", toModule("module"));
    await cli.write("tests/shop/a.json5", fixture("Order 7"));
    const { code, sums, err } = await watch([
      () => cli.write("tests/shop/a.json5", fixture("Order 8")),
      () => cli.write("mappings/own.json5", mapping("Order 8")),
      () => cli.write("mappings/own.json5", byModule),
      () => cli.write("tests/shop/a.json5", fixture("By module")),
      () => cli.write("transforms/a.ts", toModule("another")),
      () => cli.write("transforms/lib.ts", 'export const prefix = "By module, ";'),
      () => cli.write("rouse.json5", config({ testsDir: "other" })),
      () =>
        mkdir(join(cli.dir, "other", "deep"), { recursive: true }).then(() =>
          cli.write("other/deep/b.json5", fixture("another")),
        ),
    ]);
    expect(sums).toEqual([PASSED, FAILED, PASSED, FAILED, PASSED, FAILED, PASSED, PASSED]);
    expect(err).toContain("there are no fixtures in other");
    expect(code).toBe(0);
  });

  it("begins with a broken config, a broken mapping file or a broken fixture, and goes on when each is mended", async () => {
    await cli.write("rouse.json5", "{ hooks: ");
    await cli.write("mappings/own.json5", "{ id: ");
    await cli.write("tests/shop/a.json5", "{ request: ");
    const { code, sums, err } = await watch([
      () => cli.write("rouse.json5", config()),
      () => cli.write("mappings/own.json5", mapping("Order {{id}}")),
      () => cli.write("tests/shop/a.json5", fixture("Order 7")),
      () => rm(join(cli.dir, "rouse.json5")),
      () => cli.write("rouse.json5", config({ tokn: 1 })),
      () => cli.write("rouse.json5", config()),
    ]);
    // Without a config file its defaults count, which read `mappings` too.
    expect([code, sums]).toEqual([0, [PASSED, PASSED, PASSED]]);
    for (const problem of [
      "rouse.json5",
      "mappings/own.json5",
      "tests/shop/a.json5",
      'Did you mean "token"?',
    ])
      expect(err).toContain(problem);
  });

  it("does not run again for what it wrote itself, for a file that says the same, or for files that it does not read", async () => {
    await cli.write("rouse.json5", config());
    await cli.write("mappings/own.json5", mapping("Order {{id}}"));
    await cli.write("tests/shop/a.json5", fixture("Order 7"));
    const { sums, runs } = await watch(
      [
        async () => {
          await cli.write("notes.txt", "x");
          await cli.write("tests/shop/a.json5", fixture("Order 7"));
          await sleep(700);
          await cli.write("tests/shop/a.json5", fixture("Order 8"));
        },
      ],
      ["--junit", "out.xml"],
    );
    expect([sums, runs]).toEqual([[PASSED, FAILED], 2]);
    expect(await readFile(join(cli.dir, "out.xml"), "utf8")).toContain('failures="1"');
  });

  it("sees what changes while it runs, also in a folder that it has only just found", async () => {
    let press = (): void => undefined;
    const io = {
      err: () => undefined,
      onInterrupt: (listener: () => void) => ((press = listener), () => undefined),
    } as unknown as CliIo;
    const seen: string[] = [];
    await mkdir(join(cli.dir, "found"));
    await watchPlaces({ dirs: [join(cli.dir, "tests")], files: [] }, io, async (watch) => {
      watch({ dirs: [join(cli.dir, "found")], files: [] });
      const now = seen.length;
      if (now < 2) await cli.write(now === 0 ? "tests/a.txt" : "found/b.txt", "x");
      await sleep(300);
      seen.push(
        (await readdir(cli.dir, { recursive: true }))
          .filter((name) => name.endsWith(".txt"))
          .join(),
      );
      if (now === 2) press();
      return true;
    });
    expect(seen).toEqual(["tests/a.txt", "tests/a.txt,found/b.txt", "tests/a.txt,found/b.txt"]);
  });

  it("ends with Ctrl-C as a process, with the exit code of the last run and without a trace", async () => {
    await cli.write("rouse.json5", config());
    await cli.write("mappings/own.json5", mapping("Order {{id}}"));
    await cli.write("tests/shop/a.json5", fixture("Order 8"));
    const bin = join(import.meta.dirname, "../../bin/rouse.js");
    const child = spawn(process.execPath, [bin, "test", "--watch"], {
      cwd: cli.dir,
      env: { PATH: process.env["PATH"] },
    });
    let err = "";
    child.stderr.on("data", (chunk: Buffer) => {
      err += chunk.toString();
      if (err.includes(WAITING)) child.kill("SIGINT");
    });
    expect(await once(child, "exit")).toEqual([1, null]);
    expect(err).toBe(WAITING);
  });
});
