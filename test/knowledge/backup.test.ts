import { copyFile, mkdir, readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createLogger } from "../../src/core/log.ts";
import type { DocumentRecord } from "../../src/knowledge/types.ts";
import { createCli, type CliWorld } from "../cli/world.ts";
import { FIXTURES } from "./world.ts";

let cli: CliWorld;
let gateway: StartedGateway;
beforeEach(async () => {
  cli = await createCli();
  await cli.write("rouse.json5", { gateway: { port: 0, drainSeconds: 0 } });
  const log = createLogger("silent");
  gateway = await createGateway({ cwd: cli.dir, env: {}, workers: true, log });
  await gateway.start();
});
afterEach(async () => {
  await gateway.stop();
  await cli.close();
});
const json = async <T>(...args: string[]): Promise<T> =>
  JSON.parse((await cli.rouse([...args, "--json"])).out) as T;

it("rouse backup: documents of a running gateway are copied; after a restore they are found and can be read again", async () => {
  expect(await json("backup", "--store", "empty.db")).not.toHaveProperty("knowledge");
  const guide = join(FIXTURES, "guide.md");
  const { documents } = await json<{ documents: DocumentRecord[] }>("knowledge", "add", guide);
  const id = documents[0]?.id ?? "";
  expect(await json("backup", "--store", "kept.db")).toMatchObject({
    knowledge: { database: join(cli.dir, "kept.knowledge.db") },
  });
  expect((await stat(join(cli.dir, "kept.knowledge.db"))).mode & 0o777).toBe(0o600);
  await cli.rouse(["knowledge", "remove", id]);
  await gateway.stop();

  const state = join(cli.dir, "restored/.rouse");
  await mkdir(state, { recursive: true, mode: 0o700 });
  await copyFile(join(cli.dir, "kept.db"), join(state, "rouse.db"));
  await copyFile(join(cli.dir, "kept.knowledge.db"), join(state, "knowledge.db"));
  await copyFile(join(cli.dir, "rouse.json5"), join(state, "../rouse.json5"));
  const restored = ["--config", join(state, "../rouse.json5")];
  const search = ["knowledge", "--search", "how long does descaling take"];
  expect((await cli.rouse([...search, ...restored])).out).toContain("twenty minutes");
  expect(await json("knowledge", "add", id, ...restored)).toMatchObject({
    documents: [{ id, status: "ready" }],
  });
});

it("rouse backup: nothing is left behind if a copy of that name exists", async () => {
  await cli.write("a.txt", "The walrus.");
  await cli.rouse(["knowledge", "add", "a.txt"]);
  await cli.write("kept.knowledge.db", "of another time");
  expect(await cli.rouse(["backup", "--store", "kept.db"])).toMatchObject({
    code: 1,
    err: expect.stringContaining("EEXIST"),
  });
  expect((await readdir(cli.dir)).filter((name) => name.startsWith("kept"))).toEqual([
    "kept.knowledge.db",
  ]);
  expect(await readFile(join(cli.dir, "kept.knowledge.db"), "utf8")).toBe("of another time");
});
