import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { DocumentRecord, Passage } from "../../src/knowledge/types.ts";
import { createLogger } from "../../src/core/log.ts";
import { acquireLock } from "../../src/store/lock.ts";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createCli, type CliWorld } from "../cli/world.ts";
import { FIXTURES } from "./world.ts";

let cli: CliWorld;
beforeEach(async () => {
  cli = await createCli();
});
afterEach(() => cli.close());

const fixtures = async (...names: string[]): Promise<void> => {
  await mkdir(join(cli.dir, "manuals/inner"), { recursive: true });
  for (const name of names)
    await copyFile(join(FIXTURES, name), join(cli.dir, "manuals/inner", name));
};

describe.each([
  ["no gateway runs", false],
  ["a gateway runs", true],
])("rouse knowledge, while %s", (_name, runs) => {
  let gateway: StartedGateway | undefined;
  beforeEach(async () => {
    await cli.write("rouse.json5", { gateway: { port: 0, drainSeconds: 0 } });
    if (!runs) return;
    const log = createLogger("silent");
    gateway = await createGateway({ cwd: cli.dir, env: {}, workers: true, log });
    await gateway.start();
  });
  afterEach(() => gateway?.stop());

  /** The output of a command: a running gateway's config is on standard error before. */
  const withoutConfig = (err: string): string => err.replace(/^config: .*\n/, "");
  const json = async <T>(...args: string[]): Promise<T> => {
    const { out } = await cli.rouse(["knowledge", ...args, "--json"]);
    const { answeredBy, ...answer } = JSON.parse(out) as T & { answeredBy: unknown };
    expect(answeredBy).toEqual(runs ? { config: join(cli.dir, "rouse.json5") } : undefined);
    return answer as T;
  };

  it("adds a folder, lists, shows, searches, indexes again and removes", async () => {
    await fixtures("pandoc.docx", "guide.md");
    await cli.write("manuals/program.exe", "not meant");
    const name = `港口 "a".txt`;
    await writeFile(join(cli.dir, name), "The walrus sleeps.");
    const added = await cli.rouse([
      "knowledge",
      "add",
      "manuals",
      "--agent",
      "support",
      "--agent",
      "main",
      "--metadata",
      "team=café",
    ]);
    expect([added.code, withoutConfig(added.err)]).toEqual([0, ""]);
    expect(added.out.match(/^doc_\S+ {2}ready /gm)).toHaveLength(2);
    const { documents: one } = await json<{ documents: DocumentRecord[] }>(
      "add",
      name,
      "--title",
      "Walruses",
      "--external-id",
      "w",
    );
    const id = one[0]?.id ?? "";
    expect(one[0]).toMatchObject({
      filename: name,
      title: "Walruses",
      externalId: "w",
      status: "ready",
      tenant: "default",
    });
    expect((await cli.rouse(["knowledge"])).out).toMatch(
      /^ID +STATUS +SIZE +PASSAGES +ADDED +FILE\n/,
    );

    const { documents } = await json<{ documents: DocumentRecord[] }>();
    expect(
      documents.map((document) => [document.filename, document.agentIds, document.metadata]),
    ).toEqual([
      [name, [], {}],
      ["pandoc.docx", ["support", "main"], { team: "café" }],
      ["guide.md", ["support", "main"], { team: "café" }],
    ]);
    expect((await json<{ documents: unknown[] }>("--tenant", "other")).documents).toEqual([]);
    expect((await cli.rouse(["knowledge", id])).out).toMatch(/^title +Walruses$/m);
    const { passages } = await json<{ passages: Passage[] }>(
      "--search",
      "how",
      "long",
      "does",
      "descaling",
      "take",
      "--limit",
      "1",
    );
    expect(passages).toMatchObject([
      { text: expect.stringContaining("twenty minutes"), chunkId: expect.stringContaining("#") },
    ]);
    expect(await json("--search", "descaling", "--agent", "other")).toEqual({ passages: [] });
    expect((await json<{ documents: DocumentRecord[] }>("add", id)).documents).toMatchObject([
      { id, status: "ready" },
    ]);
    expect(await json("remove", id)).toEqual({ deleted: [id] });
    await cli.fails(
      `knowledge ${id}`,
      1,
      `there is no document "${id}"; \`rouse knowledge\` lists them`,
    );
  });
});

describe("rouse knowledge", () => {
  it("says what could not be indexed, with exit code 1, and adds the others", async () => {
    await cli.write("rouse.json5", { platform: { knowledge: { fileMb: 1 } } });
    await fixtures("encrypted.pdf", "guide.md");
    await cli.write("manuals/large.txt", "x".repeat(1_000_001));
    const { code, out, err } = await cli.rouse(["knowledge", "add", "manuals"]);
    expect(code).toBe(1);
    expect(out).toMatch(/failed {2}encrypted\.pdf {2}encrypted_document: /);
    expect(out).toMatch(/ready {2}guide\.md {2}2 passages/);
    expect(err).toContain("large.txt: the file has more than");
    expect((await cli.rouse(["knowledge", "--status", "failed"])).out).toContain(
      "failed (encrypted_document)",
    );
  });

  it("adds no file that is not there", () =>
    cli.fails("knowledge add none.txt", 1, "none.txt cannot be read: there is no such file"));

  it.each([
    [["add", "a.txt", "--on-duplicate", "maybe"], /skip, replace, error, keep/],
    [["--status", "done"], /queued, extracting/],
    [["--search", "x", "--limit", "many"], /write a whole number from 1/],
  ])("%j is wrong usage", async (args, message) => {
    await cli.write("a.txt", "text");
    const { code, err } = await cli.rouse(["knowledge", ...args]);
    expect(code).toBe(2);
    expect(err).toMatch(message);
  });

  it("while another command holds the state folder, waits a while and says so", async () => {
    const lock = await acquireLock(join(cli.dir, ".rouse"), {
      pid: process.pid,
      startedAt: 0,
      version: "0",
    });
    const { code, err } = await cli.rouse(["knowledge"]);
    lock.release();
    expect(code).toBe(1);
    expect(err).toMatch(/uses the state folder/);
    const brief = await acquireLock(join(cli.dir, ".rouse"), {
      pid: process.pid,
      startedAt: 0,
      version: "0",
    });
    setTimeout(() => brief.release(), 200);
    expect((await cli.rouse(["knowledge"])).code).toBe(0);
  });

  it("a provider of embeddings that is none is a problem of the config", async () => {
    await cli.write("rouse.json5", {
      platform: { knowledge: { embeddings: { provider: "locl", model: "m" } } },
      models: {
        providers: { local: { type: "openai-compatible", baseUrl: "http://127.0.0.1:9/v1" } },
      },
    });
    const { code, err } = await cli.rouse(["knowledge"]);
    expect(code).toBe(3);
    expect(err).toMatch(/platform\.knowledge\.embeddings\.provider.*local/);
  });
});
