import { copyFile, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { DocumentRecord, Passage } from "../../src/knowledge/types.ts";
import { acquireLock } from "../../src/store/lock.ts";
import { createCli, type CliWorld } from "../cli/world.ts";
import { startEndpoint, type FakeEndpoint } from "./endpoint.ts";
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

    const { documents } = await json<{ documents: DocumentRecord[] }>("list");
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
    expect((await cli.rouse(["knowledge", "list"])).out).toMatch(
      /^ID +STATUS +SIZE +CHUNKS +ADDED +FILE\n/,
    );

    const { passages } = await json<{ passages: Passage[] }>(
      "search",
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
    expect(await json("search", "descaling", "--agent", "other")).toEqual({ passages: [] });
    expect((await cli.rouse(["knowledge", "search", "matcha"])).out).toContain(
      "Matcha latte | 4.2",
    );

    const pdf = documents.find(({ filename }) => filename.endsWith(".pdf"))?.id ?? "";
    expect((await cli.rouse(["knowledge", "show", pdf])).out).toMatch(/^pages +1$/m);
    expect((await cli.rouse(["knowledge", "passages", pdf])).out).toContain(
      `${pdf}#1  Lost property › page 1\n`,
    );
    expect((await cli.rouse(["knowledge", "passages", pdf, "--from", "x"])).err).toMatch(
      /from: must be a number/,
    );
    expect((await cli.rouse(["knowledge", "remove", pdf])).out).toBe(`${pdf}  deleted\n`);
    expect(await cli.rouse(["knowledge", "show", pdf])).toMatchObject({ code: 1, out: "" });
    expect(await cli.rouse(["knowledge", "remove", pdf])).toMatchObject({ code: 1 });
  });

  it("says what could not be indexed, with exit code 1, and adds the others", async () => {
    await cli.write("rouse.json5", { platform: { knowledge: { fileMb: 1 } } });
    await fixtures("encrypted.pdf", "guide.md");
    await cli.write("manuals/large.txt", "x".repeat(1_000_001));
    const { code, out, err } = await cli.rouse(["knowledge", "add", "manuals"]);
    expect(code).toBe(1);
    expect(out).toMatch(/failed {2}encrypted\.pdf {2}encrypted_document: /);
    expect(out).toMatch(/ready {2}guide\.md {2}2 chunks/);
    expect(err).toContain("large.txt: the file has more than");
    expect((await cli.rouse(["knowledge", "list", "--status", "failed"])).out).toContain(
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
    expect(await json<{ documents: DocumentRecord[] }>("list")).toMatchObject({
      documents: [{ version: 2 }],
      hasMore: false,
    });
  });

  it("shows a bar on a terminal, and nothing in a pipe", async () => {
    await fixtures("guide.md", "drinks.csv");
    expect((await cli.rouse(["knowledge", "add", "manuals"], { terminal: true })).err).toMatch(
      /indexing \[#{24}\] 2\/2 /,
    );
  });

  it("evaluates a folder in the BEIR layout and keeps nothing", async () => {
    const figures = await json<{ ndcg10: number }>("eval", join(FIXTURES, "corpus-zh"));
    expect(figures.ndcg10).toBeGreaterThan(0.98);
    const { code, out } = await cli.rouse(["knowledge", "eval", join(FIXTURES, "corpus-en")]);
    expect(code).toBe(0);
    expect(out).toMatch(/^nDCG@10 +(?:1\.0000|0\.9\d+)$/m);
    expect(await json("list")).toEqual({ documents: [], hasMore: false });
  });

  describe("eval --embeddings", () => {
    let endpoint: FakeEndpoint;
    const folder = join(FIXTURES, "corpus-en");
    const configure = (knowledge: object): Promise<unknown> =>
      cli.write("rouse.json5", {
        platform: { knowledge },
        models: { providers: { local: { type: "openai-compatible", baseUrl: endpoint.baseUrl } } },
      });
    const EMBEDDINGS = { embeddings: { provider: "local", model: "small" } };
    beforeEach(async () => {
      endpoint = await startEndpoint();
    });
    afterEach(() => endpoint.close());

    it("fuses words and vectors as a search does, and says what words alone find", async () => {
      await configure(EMBEDDINGS);
      const lines = (await readFile(join(folder, "qrels.tsv"), "utf8")).trim().split("\n").slice(1);
      const answers = new Map(lines.map((line) => line.split("\t") as [string, string]));
      const read = async (name: string): Promise<{ _id: string; text: string }[]> =>
        (await readFile(join(folder, name), "utf8"))
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line) as { _id: string; text: string });
      const corpus = await read("corpus.jsonl");
      const places = new Map(
        (await read("queries.jsonl")).map(({ _id, text }) => [text, answers.get(_id) ?? ""]),
      );
      // Vectors that point away from what is asked for: the whole search must do worse than words alone.
      const toVector = (text: string): number[] => {
        const wanted = places.get(text);
        return corpus.map(({ _id, text: whole }) =>
          wanted === undefined
            ? whole.includes(text.slice(0, 40))
              ? 1
              : 0
            : _id === wanted
              ? -1
              : 0.1,
        );
      };
      endpoint.answer = ({ input }) => ({
        json: { data: input.map((text, index) => ({ index, embedding: toVector(text) })) },
      });
      const figures = await json<{
        queries: number;
        chunks: number;
        ndcg10: number;
        byWords: { ndcg10: number };
      }>("eval", folder, "--embeddings");
      expect(figures.byWords.ndcg10).toBeGreaterThan(0.9);
      expect(figures.ndcg10).toBeLessThan(figures.byWords.ndcg10 - 0.05);
      // The vector of each passage, and of each question that has a judgement.
      const asked = endpoint.asked.flatMap(({ input }) => input);
      expect(asked).toHaveLength(figures.chunks + figures.queries);
      expect(Math.max(...endpoint.asked.map(({ input }) => input.length))).toBeGreaterThan(1);
      const { out } = await cli.rouse(["knowledge", "eval", folder, "--embeddings"]);
      expect(out).toMatch(/^nDCG@10 +0\.\d{4} \(by words alone (?:0\.9\d{3}|1\.0000)\)$/m);
    });

    it("shows its progress on a terminal, tries again what passes, and ends with the reason of what does not", async () => {
      await configure(EMBEDDINGS);
      let failures = 0;
      endpoint.answer = ({ input }) =>
        input.length > 1 && failures++ === 0 ? { status: 503 } : undefined;
      const { code, err } = await cli.rouse(["knowledge", "eval", folder, "--embeddings"], {
        terminal: true,
      });
      expect([code, failures > 1]).toEqual([0, true]);
      expect(err).toMatch(/embedding \d+\/\d+ chunks/);
      endpoint.answer = ({ input }) => (input.length === 1 ? { status: 401 } : undefined);
      const ended = await cli.rouse(["knowledge", "eval", folder, "--embeddings"]);
      expect([ended.code, ended.out]).toEqual([1, ""]);
      expect(ended.err).toContain("the embedding endpoint answered 401: check the provider's key");
    });

    it("measures the order of the reranker with --reranker, which `search` shows too", async () => {
      const reranker = { provider: "local", model: "large" };
      await configure({ reranker });
      const lines = (await readFile(join(folder, "qrels.tsv"), "utf8")).trim().split("\n").slice(1);
      // The last passage by words is the best one: the whole search must do worse than words alone.
      endpoint.answer = ({ documents }) => ({
        json: { results: documents.map((_, index) => ({ index, relevance_score: index })) },
      });
      const figures = await json<{
        queries: number;
        ndcg10: number;
        byWords: { ndcg10: number };
        embedSeconds?: number;
      }>("eval", folder, "--reranker");
      expect(figures.queries).toBe(new Set(lines.map((line) => line.split("\t")[0])).size);
      expect(figures.byWords.ndcg10).toBeGreaterThan(0.9);
      expect(figures.ndcg10).toBeLessThan(figures.byWords.ndcg10 - 0.05);
      expect([
        figures.embedSeconds,
        endpoint.count("/v1/embeddings"),
        endpoint.count("/v1/rerank"),
      ]).toEqual([undefined, 0, figures.queries]);
      endpoint.answer = () => ({ json: { results: [] } });
      const ended = await cli.rouse(["knowledge", "eval", folder, "--reranker"]);
      expect([ended.code, ended.out]).toEqual([1, ""]);
      expect(ended.err).toContain(
        "the rerank endpoint answered with something else than a score for each passage",
      );

      endpoint.answer = undefined;
      await configure({ ...EMBEDDINGS, reranker });
      endpoint.asked.length = 0;
      expect(
        (await cli.rouse(["knowledge", "eval", folder, "--embeddings", "--reranker"])).code,
      ).toBe(0);
      expect([endpoint.count("/v1/embeddings") > 0, endpoint.count("/v1/rerank")]).toEqual([
        true,
        figures.queries,
      ]);

      await configure({ reranker });
      await cli.write("a.txt", "The walrus. {1}");
      await cli.write("b.txt", "The walrus eats clams of the sea. {9}");
      await cli.rouse(["knowledge", "add", "a.txt", "b.txt"]);
      const { passages } = await json<{ passages: { text: string; score: number }[] }>(
        "search",
        "walrus",
      );
      expect(passages.map(({ text, score }) => [text, score])).toEqual([
        ["The walrus eats clams of the sea. {9}", 0.9],
        ["The walrus. {1}", 0.1],
      ]);
    });

    it("says how embeddings are configured if there are none", async () => {
      await configure({});
      const { code, err } = await cli.rouse(["knowledge", "eval", folder, "--embeddings"]);
      expect([code, endpoint.asked]).toEqual([2, []]);
      expect(err).toContain(
        'Set platform.knowledge.embeddings to { provider: "<one of models.providers>"',
      );
      expect((await cli.rouse(["knowledge", "eval", "--help"])).out).toContain("--embeddings");
      expect((await cli.rouse(["knowledge", "eval", folder, "--reranker"])).err).toContain(
        "the config names no reranker. Set platform.knowledge.reranker to",
      );
    });
  });

  it.each([
    [["add", "none.txt"], /none\.txt cannot be read/],
    [["add", "a.txt", "--on-duplicate", "maybe"], /skip, replace, error, keep/],
    [["list", "--status", "done"], /queued, extracting/],
    [["search", "x", "--limit", "many"], /whole number/],
    [["eval", "none"], /ENOENT|no such file/],
  ])("%j is wrong usage", async (args, message) => {
    await cli.write("a.txt", "text");
    const { code, err } = await cli.rouse(["knowledge", ...args]);
    expect(code).toBe(args[0] === "eval" ? 1 : 2);
    expect(err).toMatch(message);
  });

  it("while another command holds the state folder, waits a while and says so", async () => {
    const lock = await acquireLock(join(cli.dir, ".rouse"), {
      pid: process.pid,
      startedAt: 0,
      version: "0",
    });
    const { code, err } = await cli.rouse(["knowledge", "list"]);
    lock.release();
    expect(code).toBe(1);
    expect(err).toMatch(/uses the state folder/);
    const brief = await acquireLock(join(cli.dir, ".rouse"), {
      pid: process.pid,
      startedAt: 0,
      version: "0",
    });
    setTimeout(() => brief.release(), 200);
    expect((await cli.rouse(["knowledge", "list"])).code).toBe(0);
  });

  it("a provider of embeddings that is none is a problem of the config", async () => {
    await cli.write("rouse.json5", {
      platform: { knowledge: { embeddings: { provider: "locl", model: "m" } } },
      models: {
        providers: { local: { type: "openai-compatible", baseUrl: "http://127.0.0.1:9/v1" } },
      },
    });
    const { code, err } = await cli.rouse(["knowledge", "list"]);
    expect(code).toBe(3);
    expect(err).toMatch(/platform\.knowledge\.embeddings\.provider.*local/);
  });
});
