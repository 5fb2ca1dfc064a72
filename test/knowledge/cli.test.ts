import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { DocumentRecord, Passage } from "../../src/knowledge/types.ts";
import { acquireLock } from "../../src/store/lock.ts";
import { createCli, type CliWorld } from "../cli/world.ts";
import { FIXTURES } from "./world.ts";

let cli: CliWorld;
beforeEach(async () => {
  cli = await createCli();
});
afterEach(() => cli.close());

const json = async <T>(...args: string[]): Promise<T> =>
  JSON.parse((await cli.rouse(["knowledge", ...args, "--json"])).out) as T;
const fixtures = async (...names: string[]): Promise<void> => {
  await mkdir(join(cli.dir, "manuals/inner"), { recursive: true });
  for (const name of names)
    await copyFile(join(FIXTURES, name), join(cli.dir, "manuals/inner", name));
};

describe("rouse knowledge", () => {
  it("adds a folder, lists, shows, searches and removes", async () => {
    await fixtures("pandoc.docx", "drinks.xlsx", "libreoffice.pdf");
    await cli.write("manuals/program.exe", "not meant");
    const added = await cli.rouse([
      "knowledge",
      "add",
      "manuals",
      "--agent",
      "support",
      "--metadata",
      "team=café",
    ]);
    expect([added.code, added.err]).toEqual([0, ""]);
    expect(added.out.match(/^doc_\S+ {2}ready /gm)).toHaveLength(3);

    const { documents } = await json<{ documents: DocumentRecord[] }>();
    expect(documents.map(({ filename }) => filename).toSorted()).toEqual([
      "drinks.xlsx",
      "libreoffice.pdf",
      "pandoc.docx",
    ]);
    expect(documents[0]).toMatchObject({
      agentIds: ["support"],
      metadata: { team: "café" },
      tenant: "default",
    });
    expect((await cli.rouse(["knowledge"])).out).toMatch(
      /^ID +STATUS +SIZE +PASSAGES +ADDED +FILE\n/,
    );

    const { passages } = await json<{ passages: Passage[] }>(
      "--search",
      "how",
      "long",
      "does",
      "descaling",
      "take",
      "--limit",
      "2",
    );
    expect(passages).toHaveLength(2);
    expect(passages[0]?.text).toContain("twenty minutes");
    expect(await json("--search", "descaling", "--agent", "other")).toEqual({ passages: [] });
    expect((await cli.rouse(["knowledge", "--search", "matcha"])).out).toContain(
      "Matcha latte | 4.2",
    );

    const pdf = documents.find(({ filename }) => filename.endsWith(".pdf"))?.id ?? "";
    expect((await cli.rouse(["knowledge", pdf])).out).toMatch(/^pages +1$/m);
    expect((await cli.rouse(["knowledge", pdf, "--passages"])).out).toContain(
      `${pdf}#1  Lost property › page 1\n`,
    );
    expect((await cli.rouse(["knowledge", pdf, "--passages", "--from", "x"])).err).toMatch(
      /from: must be a number/,
    );
    expect((await cli.rouse(["knowledge", "remove", pdf])).out).toBe(`${pdf}  deleted\n`);
    expect(await cli.rouse(["knowledge", pdf])).toMatchObject({ code: 1, out: "" });
    expect(await cli.rouse(["knowledge", "remove", pdf])).toMatchObject({ code: 1 });
  });

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

  it("versions and duplicates", async () => {
    await cli.write("a.txt", "The walrus.");
    await cli.write("b.txt", "The seal.");
    expect((await cli.rouse(["knowledge", "add", "a.txt", "--external-id", "m"])).code).toBe(0);
    expect((await cli.rouse(["knowledge", "add", "a.txt", "--external-id", "m"])).out).toContain(
      "(was there already)",
    );
    expect(await cli.rouse(["knowledge", "add", "a.txt", "--on-duplicate", "error"])).toMatchObject(
      { code: 1 },
    );
    const { documents } = await json<{ documents: DocumentRecord[] }>(
      "add",
      "b.txt",
      "--external-id",
      "m",
    );
    expect(documents[0]).toMatchObject({ version: 2, status: "ready" });
    expect(await json<{ documents: DocumentRecord[] }>()).toMatchObject({
      documents: [{ version: 2 }],
      hasMore: false,
    });
  });

  it.each([
    [["add", "none.txt"], /none\.txt cannot be read/],
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
