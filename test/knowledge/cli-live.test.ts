import { copyFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { createLogger } from "../../src/core/log.ts";
import type { DocumentRecord, Passage, PassagePage } from "../../src/knowledge/types.ts";
import { createCli, type CliWorld } from "../cli/world.ts";
import { FIXTURES } from "./world.ts";

let cli: CliWorld;
let gateway: StartedGateway;
const start = async (workers: boolean): Promise<void> => {
  gateway = await createGateway({
    cwd: cli.dir,
    env: {},
    workers,
    print: () => undefined,
    log: createLogger("silent"),
  });
  await gateway.start();
};
beforeEach(async () => {
  cli = await createCli();
  await configure({});
});
const configure = (more: object): Promise<unknown> =>
  cli.write("rouse.json5", {
    gateway: { port: 0, drainSeconds: 0 },
    platform: { knowledge: { fileMb: 1 } },
    ...more,
  });
afterEach(async () => {
  await gateway.stop();
  await cli.close();
});

/** What a command prints of its own: a running gateway's config is on standard error before. */
const withoutConfig = (err: string): string => err.replace(/^config: .*\n/, "");

const json = async <T>(...args: string[]): Promise<T> => {
  const { out } = await cli.rouse(["knowledge", ...args, "--json"]);
  const { answeredBy, ...answer } = JSON.parse(out) as T & { answeredBy: unknown };
  expect(answeredBy).toEqual({ config: join(cli.dir, "rouse.json5") });
  return answer as T;
};

function commands(): void {
  it("adds, lists, shows, searches, indexes anew and removes through it", async () => {
    await start(true);
    for (const name of ["pandoc.docx", "guide.md"])
      await copyFile(join(FIXTURES, name), join(cli.dir, name));
    const name = `港口 "a".txt`;
    await writeFile(join(cli.dir, name), "The walrus sleeps.");
    const added = await cli.rouse([
      "knowledge",
      "add",
      "pandoc.docx",
      "guide.md",
      "--agent",
      "support",
      "--agent",
      "main",
      "--metadata",
      "team=café",
    ]);
    expect([added.code, withoutConfig(added.err), added.out.match(/^doc_\S+ {2}ready /gm)]).toEqual(
      [0, "", expect.objectContaining({ length: 2 })],
    );
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

    const { documents } = await json<{ documents: DocumentRecord[] }>();
    expect(
      documents.map((document) => [document.filename, document.agentIds, document.metadata]),
    ).toEqual([
      [name, [], {}],
      ["pandoc.docx", ["support", "main"], { team: "café" }],
      ["guide.md", ["support", "main"], { team: "café" }],
    ]);
    expect((await json<{ documents: unknown[] }>("--tenant", "other")).documents).toEqual([]);
    expect((await json<{ documents: unknown[]; hasMore: boolean }>("--limit", "1")).hasMore).toBe(
      true,
    );
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
    const of = documents.find(({ filename }) => filename === "guide.md")?.id ?? "";
    const { passages: all, hasMore } = await json<PassagePage>(of, "--passages");
    expect([all.length, hasMore]).toEqual([
      documents.find((one) => one.id === of)?.chunkCount,
      false,
    ]);
    expect(all.map(({ number, chunkId }) => [number, chunkId])).toEqual(
      all.map((_, number) => [number, `${of}#${number}`]),
    );
    expect(all.every((passage, n) => n === 0 || passage.start >= (all[n - 1]?.start ?? 0))).toBe(
      true,
    );
    expect(all.map(({ chunkId }) => chunkId)).toContain(
      passages[0]?.documentId === of ? passages[0].chunkId : `${of}#0`,
    );
    expect(await json<PassagePage>(of, "--passages", "--from", "1", "--limit", "1")).toEqual({
      passages: all.slice(1, 2),
      hasMore: all.length > 2,
    });
    expect((await cli.rouse(["knowledge", of, "--passages", "--limit", "1"])).out).toContain(
      `${of}#0`,
    );
    expect(await json("--search", "descaling", "--agent", "other")).toEqual({ passages: [] });
    expect((await json<{ documents: DocumentRecord[] }>("add", id)).documents).toMatchObject([
      { id, status: "ready" },
    ]);
    expect(await json("remove", id)).toEqual({ deleted: [id] });
    for (const command of [[], ["remove"], ["add"]])
      expect(await cli.rouse(["knowledge", ...command, id])).toMatchObject({
        code: 1,
        err: expect.stringContaining(`\nrouse: there is no document ${id}\n`),
      });
    // The gateway itself has them open.
    const response = await gateway.fetch(
      new Request("http://127.0.0.1/admin/v1/knowledge/documents", {
        headers: { authorization: `Bearer ${gateway.operatorToken}` },
      }),
    );
    expect(((await response.json()) as { documents: unknown[] }).documents).toHaveLength(2);
  });

  it("shows a bar for what goes up and for what is indexed, and says what is refused", async () => {
    await start(true);
    await cli.write("a.txt", "The walrus. ".repeat(20_000));
    await cli.write("empty.txt", "");
    await cli.write("large.txt", "x".repeat(1_000_001));
    const { code, out, err } = await cli.rouse(
      ["knowledge", "add", "a.txt", "empty.txt", "large.txt"],
      { terminal: true },
    );
    expect(code).toBe(1);
    expect(err).toMatch(/uploading \[[#.]{24}\] \d\/3 a\.txt/);
    expect(err).toMatch(/indexing \[#{24}\] 2\/2 /);
    expect(err).toContain("large.txt: the file has more than 1000000 bytes");
    expect(out).toMatch(/ready {2}a\.txt[^]*failed {2}empty\.txt {2}no_text_found: /);
    expect(await cli.rouse(["knowledge", "add", "a.txt", "--on-duplicate", "error"])).toMatchObject(
      {
        code: 1,
        err: expect.stringContaining("there already"),
      },
    );
  });

  it("does not wait for a gateway without workers", async () => {
    await start(false);
    await cli.write("a.txt", "The walrus.");
    const { code, out, err } = await cli.rouse(["knowledge", "add", "a.txt"]);
    expect([code, out]).toEqual([0, expect.stringContaining("queued")]);
    expect(err).toContain("without workers");
    await gateway.stop();
    await start(true);
    for (
      let n = 0;
      n < 500 && !(await cli.rouse(["knowledge", "--status", "ready"])).out.includes("a.txt");
      n++
    )
      await new Promise((done) => setTimeout(done, 20));
    expect((await cli.rouse(["knowledge", "--search", "walrus"])).out).toContain("The walrus.");
  });
}

describe("rouse knowledge, while a gateway runs", commands);
