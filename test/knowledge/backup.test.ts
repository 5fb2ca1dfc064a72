import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createLogger } from "../../src/core/log.ts";
import type { DocumentRecord, Passage } from "../../src/knowledge/types.ts";
import { createCli, type CliWorld } from "../cli/world.ts";
import { FIXTURES } from "./world.ts";

let cli: CliWorld;
let gateway: StartedGateway;
let elsewhere: string;
const start = async (cwd: string): Promise<void> => {
  gateway = await createGateway({
    cwd,
    env: {},
    workers: true,
    print: () => undefined,
    log: createLogger("silent"),
  });
  await gateway.start();
};
beforeEach(async () => {
  cli = await createCli();
  elsewhere = await mkdtemp(join(tmpdir(), "rouse-restored-"));
  await cli.write("rouse.json5", { gateway: { port: 0, drainSeconds: 0 } });
});
afterEach(async () => {
  await gateway.stop();
  await cli.close();
  await rm(elsewhere, { recursive: true, force: true });
});

interface Copied {
  file: string;
  knowledge?: { database: string; bytes: number };
}
const json = async <T>(...args: string[]): Promise<T> =>
  JSON.parse((await cli.rouse([...args, "--json"])).out) as T;

it("rouse backup: documents of a running gateway are copied; after a restore they are found and can be read again", async () => {
  await start(cli.dir);
  expect(await json<Copied>("backup", "--store", "empty.db")).not.toHaveProperty("knowledge");
  await copyFile(join(FIXTURES, "guide.md"), join(cli.dir, "guide.md"));
  const { documents } = await json<{ documents: DocumentRecord[] }>("knowledge", "add", "guide.md");
  const id = documents[0]?.id ?? "";
  const copied = await json<Copied>("backup", "--store", "kept.db");
  expect(copied.knowledge).toMatchObject({ database: join(cli.dir, "kept.knowledge.db") });
  expect((await stat(join(cli.dir, "kept.knowledge.db"))).mode & 0o777).toBe(0o600);
  await cli.rouse(["knowledge", "remove", id]);
  await gateway.stop();

  const state = join(elsewhere, ".rouse");
  await mkdir(state, { mode: 0o700 });
  await copyFile(join(cli.dir, "kept.db"), join(state, "rouse.db"));
  await copyFile(join(cli.dir, "kept.knowledge.db"), join(state, "knowledge.db"));
  await copyFile(join(cli.dir, "rouse.json5"), join(elsewhere, "rouse.json5"));
  await start(elsewhere);
  const ask = async (method: string, path: string, body?: object): Promise<unknown> => {
    const headers = {
      authorization: `Bearer ${gateway.operatorToken}`,
      "content-type": "application/json",
    };
    const request = new Request(`http://127.0.0.1/admin/v1/knowledge/${path}`, {
      method,
      headers,
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return (await gateway.fetch(request)).json();
  };
  const found = (await ask("POST", "search", { text: "how long does descaling take" })) as {
    passages: Passage[];
  };
  expect(found.passages[0]).toMatchObject({
    documentId: id,
    text: expect.stringContaining("twenty minutes"),
  });
  await ask("POST", `documents/${id}/reindex`);
  for (let looks = 0; looks < 1500; looks++) {
    const { documents: now } = (await ask("GET", "documents")) as { documents: DocumentRecord[] };
    if (now[0]?.status === "ready") break;
    await new Promise((done) => setTimeout(done, 20));
  }
  expect(await ask("GET", "documents")).toMatchObject({ documents: [{ id, status: "ready" }] });
});

it("rouse backup: nothing is left behind if a copy of that name exists", async () => {
  await start(cli.dir);
  await writeFile(join(cli.dir, "a.txt"), "The walrus.");
  await cli.rouse(["knowledge", "add", "a.txt"]);
  await writeFile(join(cli.dir, "kept.knowledge.db"), "of another time");
  expect(await cli.rouse(["backup", "--store", "kept.db"])).toMatchObject({
    code: 1,
    err: expect.stringContaining("EEXIST"),
  });
  expect((await readdir(cli.dir)).filter((name) => name.startsWith("kept"))).toEqual([
    "kept.knowledge.db",
  ]);
  expect(await readFile(join(cli.dir, "kept.knowledge.db"), "utf8")).toBe("of another time");
});
