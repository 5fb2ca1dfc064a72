import {
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLogger } from "../../src/core/log.ts";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createWorld, TOKEN, type World } from "../e2e/world.ts";
import { configWith, savePairs, untilTaken } from "./saves.ts";

const mappingFile = (path: string, more: object = { messageTemplate: "x" }): object => ({
  id: "file",
  mappings: [{ id: path, match: { path }, deliver: false, ...more }],
});

describe("two saves", () => {
  it("the second one is applied, however soon it comes, and the log names what is in use", async () => {
    const { applied, logged, last } = await savePairs(4, (pair) => pair * 200);
    expect(applied).toBe(4);
    expect(logged.length).toBeGreaterThanOrEqual(4);
    expect(last.startsWith(logged.at(-1) ?? "none")).toBe(true);
  });
});

describe("a save", () => {
  let world: World;
  let more: (() => Promise<void>)[];
  beforeEach(() => void (more = []));
  afterEach(async () => {
    for (const end of more) await end();
  });
  const open = async (options: Parameters<typeof createWorld>[0]): Promise<void> => {
    world = await createWorld({ workers: false, ...options });
    more.push(() => world.stop());
  };

  it("while the gateway starts is applied", async () => {
    const dir = mkdtempSync(join(tmpdir(), "rouse-test-"));
    writeFileSync(join(dir, "rouse.json5"), JSON.stringify(configWith("before")));
    const gateway: StartedGateway = await createGateway({ cwd: dir, env: {}, workers: false });
    more.push(async () => {
      await gateway.stop();
      rmSync(dir, { recursive: true, force: true });
    });
    writeFileSync(join(dir, "rouse.json5"), JSON.stringify(configWith("after")));
    await gateway.start();
    const post = (): Promise<Response> =>
      gateway.fetch(
        new Request("http://127.0.0.1/hooks/after", {
          method: "POST",
          body: "{}",
          headers: { authorization: `Bearer ${TOKEN}` },
        }),
      );
    await expect.poll(async () => (await post()).status).toBe(202);
  });

  it("that mends a config with problems is applied", async () => {
    await open({});
    world.write("rouse.json5", '{ hooks: { token: { file: "later/token" }, enabled: true } }');
    await world.until(async () => world.gateway.status().reloadProblems.length > 0);
    world.write("later/token", `${"t".repeat(30)}\n`);
    await world.until(async () => world.gateway.status().reloadProblems.length === 0);
    expect(
      (
        await world.post(
          "/hooks/wake",
          { text: "x" },
          { authorization: `Bearer ${"t".repeat(30)}` },
        )
      ).status,
    ).toBe(200);
  });

  it("soon after another one is applied with it", async () => {
    await open({ logLevel: "trace" });
    for (const name of ["one", "two", "three"]) {
      world.write("rouse.json5", configWith(name));
      // Shorter than the time without a change that the gateway waits for, by the same clock.
      await sleep(100);
    }
    await untilTaken(world, "three");
    const reloads = world.logged.filter((line) => line.includes("the config was reloaded"));
    expect(reloads).toHaveLength(1);
  });

  it("by a rename is applied, and one after it, and of a file behind a link", async () => {
    await open({});
    const file = join(world.dir, "rouse.json5");
    for (const name of ["one", "two"]) {
      world.write("rouse.json5.new", configWith(name));
      renameSync(`${file}.new`, file);
      await untilTaken(world, name);
    }
    world.write("elsewhere/real.json5", configWith("three"));
    unlinkSync(file);
    symlinkSync(join(world.dir, "elsewhere", "real.json5"), file);
    await untilTaken(world, "three");
    world.write("elsewhere/real.json5", configWith("four"));
    await untilTaken(world, "four");
  });

  it("of ConfigMaps, whose folders of files are replaced by other links, is applied", async () => {
    await open({});
    const at = (...names: string[]): string => join(world.dir, ...names);
    const swap = (folder: string, version: string, name: string, text: string): void => {
      mkdirSync(at(folder, `..${version}`), { recursive: true });
      writeFileSync(at(folder, `..${version}`, name), text);
      symlinkSync(`..${version}`, at(folder, "..data_tmp"));
      renameSync(at(folder, "..data_tmp"), at(folder, "..data"));
      if (version === "1") symlinkSync(`..data/${name}`, at(folder, name));
    };
    const swapMapping = (version: string, path: string): void =>
      swap(
        "mappings",
        version,
        "a.json",
        JSON.stringify(mappingFile(path, { transform: { module: "t.js" } })),
      );
    swap("transforms", "1", "t.js", "export default () => null;");
    swapMapping("1", "m-one");
    await world.until(async () => (await world.post("/hooks/m-one", {})).status === 204);
    swap("transforms", "2", "t.js", 'export default () => ({ message: "taken" });');
    await untilTaken(world, "m-one");
    swapMapping("2", "m-two");
    await untilTaken(world, "m-two");
    // The folder of before goes only now.
    rmSync(at("mappings", "..1"), { recursive: true });
    swapMapping("3", "m-three");
    await untilTaken(world, "m-three");
  });

  it("into a folder that took another's place is applied", async () => {
    await open({ files: { "mappings/a.json": mappingFile("m-one") } });
    world.write("next/a.json", mappingFile("m-two"));
    renameSync(join(world.dir, "mappings"), join(world.dir, "mappings.old"));
    renameSync(join(world.dir, "next"), join(world.dir, "mappings"));
    await untilTaken(world, "m-two");
    world.write("mappings/a.json", mappingFile("m-three"));
    await untilTaken(world, "m-three");
  });

  it("of a secret that a mapping file names is applied", async () => {
    const [before, after] = ["b".repeat(20), "a".repeat(20)];
    await open({
      files: {
        "secrets/partner": before,
        "mappings/partner.json5": {
          ...mappingFile("partner"),
          auth: { token: { file: "secrets/partner" } },
        },
      },
    });
    const status = async (token: string): Promise<number> =>
      (await world.post("/hooks/partner", {}, { authorization: `Bearer ${token}` })).status;
    expect(await status(before)).toBe(202);
    world.write("secrets/partner", `${after}\n`);
    await expect.poll(() => status(after)).toBe(202);
    expect(await status(before)).toBe(401);
  });

  it("of a mapping and of its module together is applied as one", async () => {
    const mapping = (path: string): object => mappingFile(path, { transform: { module: "t.js" } });
    await open({
      files: {
        "mappings/t.json": mapping("before"),
        "transforms/t.js": "export default () => null;",
      },
    });
    expect((await world.post("/hooks/before", {})).status).toBe(204);
    world.write("transforms/t.js", 'export default () => ({ message: "taken" });');
    world.write("mappings/t.json", mapping("after"));
    // With the module of before the answer would be 204.
    const taken = await world.until(async () => {
      const { status } = await world.post("/hooks/after", {});
      return status !== 404 && status;
    });
    expect(taken).toBe(202);
  });

  it.each(["js", "ts"])("of a file that a module imports is applied (%s)", async (type) => {
    const lib = (path: string): string => `export const found = ${JSON.stringify(path)};`;
    await open({
      files: {
        "mappings/t.json": mappingFile("t", { transform: { module: `t.${type}` } }),
        [`transforms/t.${type}`]: `import { found } from "./lib/found.${type}"; export default () => found === "yes" ? { message: "taken" } : null;`,
        [`transforms/lib/found.${type}`]: lib("no"),
      },
    });
    expect((await world.post("/hooks/t", {})).status).toBe(204);
    world.write(`transforms/lib/found.${type}`, lib("yes"));
    await untilTaken(world, "t");
  });

  it("of a new plugin into a folder of its own is applied", async () => {
    await open({});
    mkdirSync(join(world.dir, "plugins", "mine"), { recursive: true });
    world.write("rouse.json5", configWith("folder-seen"));
    await untilTaken(world, "folder-seen");
    world.write(
      "plugins/mine/index.js",
      'import { definePlugin } from "rouse/plugin"; export default definePlugin({ id: "mine", presets: [] });',
    );
    await world.until(async () =>
      JSON.stringify((await world.admin("/admin/v1/status")).body).includes("plugins/mine"),
    );
  });

  it("that comes back to what is in use ends the report of problems", async () => {
    const logged: string[] = [];
    const dir = mkdtempSync(join(tmpdir(), "rouse-test-"));
    const save = (text: string): void => writeFileSync(join(dir, "rouse.json5"), text);
    save(JSON.stringify(configWith("fine")));
    const log = createLogger("info", { write: (line: string) => void logged.push(line) });
    const gateway = await createGateway({ cwd: dir, env: {}, workers: false, log });
    more.push(async () => {
      await gateway.stop();
      rmSync(dir, { recursive: true, force: true });
    });
    await gateway.start();
    save("{");
    await expect.poll(() => gateway.status().reloadProblems.length).toBe(1);
    save(JSON.stringify(configWith("fine")));
    await expect.poll(() => gateway.status().reloadProblems.length).toBe(0);
    expect(logged.at(-1)).toContain("the config has no problems any more");
  });
});
