import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { systemClock, type Clock } from "../../src/core/clock.ts";
import { knowledgeSchema } from "../../src/config/schema/knowledge.ts";
import { createLogger } from "../../src/core/log.ts";
import { createKnowledge } from "../../src/knowledge/knowledge.ts";
import { createEmbedder } from "../../src/knowledge/models/embed.ts";
import { EndpointError } from "../../src/knowledge/models/endpoint.ts";
import { fuseRankings } from "../../src/knowledge/ranking.ts";
import type { Embedder } from "../../src/knowledge/types.ts";
import { newSchema, sqlSource } from "../store/postgres.ts";
import { startEndpoint, type FakeEndpoint } from "./endpoint.ts";
import { createWorld, describeBoth, type KnowledgeWorld } from "./world.ts";

let world: KnowledgeWorld | undefined;
afterEach(async () => {
  await world?.close();
  world = undefined;
});

/** Knows two meanings, whatever the words. */
function meanings(
  model = "m",
): Embedder & { calls: string[][]; down: boolean; failure: Error; refuse: RegExp | undefined } {
  const embedder = {
    model,
    calls: [] as string[][],
    down: false,
    failure: new Error("the endpoint is down"),
    refuse: undefined as RegExp | undefined,
    async embed(texts: readonly string[]) {
      embedder.calls.push([...texts]);
      if (embedder.down) throw embedder.failure;
      if (texts.some((text) => embedder.refuse?.test(text)))
        throw new EndpointError("the endpoint refuses the text", "answered", { isRefused: true });
      return texts.map((text) =>
        Float32Array.from([
          /dog|puppy|hound/i.test(text) ? 3 : 0.1,
          /ship|vessel|boat/i.test(text) ? 3 : 0.1,
        ]),
      );
    },
  };
  return embedder;
}

/** A clock whose sleeps end when the test says so. */
function handClock(): Clock & { sleeps: number[]; wake(): void } {
  let wakers: (() => void)[] = [];
  const sleeps: number[] = [];
  return {
    sleeps,
    now: () => systemClock.now(),
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        sleeps.push(ms);
        wakers.push(resolve);
        signal?.addEventListener("abort", () => resolve(), { once: true });
      }),
    wake() {
      for (const waker of wakers.splice(0)) waker();
      wakers = [];
    },
  };
}

const until = async (done: () => boolean | Promise<boolean>): Promise<void> => {
  while (!(await done())) await new Promise((resolve) => setTimeout(resolve, 5));
};
const embedded = async (id: string): Promise<number> =>
  (await world?.knowledge.get("t", id))?.embeddedCount ?? -1;

describeBoth((make) => {
  describe("search by meaning", () => {
    it("finds what no word of the question names, and fuses both rankings", async () => {
      const embed = meanings();
      world = await make({ embed });
      const hound = await world.index("The hound sleeps in its basket.");
      const vessel = await world.index("The vessel lies in the harbour.");
      await until(
        async () => (await embedded(hound.id)) === 1 && (await embedded(vessel.id)) === 1,
      );
      expect((await world.found("puppy"))[0]).toBe("The hound sleeps in its basket.");
      expect((await world.found("boat"))[0]).toBe("The vessel lies in the harbour.");
      // First by both rankings goes before first by one.
      expect((await world.found("hound dog"))[0]).toBe("The hound sleeps in its basket.");
      expect(await world.knowledge.search({ tenant: "other", text: "puppy" })).toEqual([]);
    });

    it("another model: its own vectors, never compared with the old ones", async () => {
      const schema = newSchema();
      world = await make({ embed: meanings("one") }, schema);
      const { id } = await world.index("The hound sleeps.");
      await until(async () => (await embedded(id)) === 1);
      const { dir } = world;
      await world.knowledge.close();
      const two = meanings("two");
      two.down = true;
      const clock = handClock();
      const sql = world.isShared ? sqlSource(schema) : undefined;
      const common = {
        dir,
        clock,
        log: createLogger("silent"),
        config: knowledgeSchema.parse(undefined),
        embed: two,
      };
      const other = await createKnowledge({ ...common, sql });
      await other.start();
      await until(() => clock.sleeps.length === 1);
      two.down = false;
      expect(await other.search({ tenant: "t", text: "puppy" })).toEqual([]);
      clock.wake();
      await until(async () => (await other.get("t", id))?.embeddedCount === 1);
      expect(await other.search({ tenant: "t", text: "puppy" })).toHaveLength(1);
      await other.close();
    });
  });

  it("deleting takes the vectors too", async () => {
    world = await make({ embed: meanings() });
    const { id } = await world.index("The hound sleeps.");
    await until(async () => (await embedded(id)) === 1);
    expect((await world.rows())["vectors"]).toBe(1);
    await world.knowledge.remove("t", id);
    expect(await world.rows()).toEqual({
      documents: 0,
      chunks: 0,
      passages: 0,
      vectors: 0,
      words_docsize: 0,
      grams_docsize: 0,
    });
  });
});

describe("vectors of passages", () => {
  it("in batches of 16, and each chunk once", async () => {
    const embed = meanings();
    world = await createWorld({ embed });
    const document = await world.index(
      "The hound sleeps in a sentence that has some length. ".repeat(1000),
    );
    await until(async () => (await embedded(document.id)) === document.chunkCount);
    expect(Math.max(...embed.calls.map((texts) => texts.length))).toBe(16);
    expect(embed.calls.flat()).toHaveLength(document.chunkCount);
    await world.restart();
    await world.index("One more.");
    expect(embed.calls.flat().filter((text) => text !== "One more.")).toHaveLength(
      document.chunkCount,
    );
  });

  it("an endpoint that is down: found by words immediately, by meaning once it is back", async () => {
    const embed = meanings();
    embed.down = true;
    const clock = handClock();
    world = await createWorld({ embed, clock });
    const document = await world.index("The hound sleeps.");
    expect(document).toMatchObject({ status: "ready", error: null, embeddedCount: 0 });
    expect(await world.found("hound")).toEqual(["The hound sleeps."]);
    expect(await world.found("puppy")).toEqual([]);
    await until(() => clock.sleeps.length === 1);
    clock.wake();
    await until(() => clock.sleeps.length === 2);
    expect(clock.sleeps).toEqual([5_000, 10_000]);
    embed.down = false;
    clock.wake();
    await until(async () => (await embedded(document.id)) === 1);
    expect(await world.found("puppy")).toEqual(["The hound sleeps."]);
  });

  it("an endpoint that asks for a longer wait is given it", async () => {
    const embed = meanings();
    embed.failure = new EndpointError("the endpoint answered 429", "busy", {
      headers: { "retry-after": "600" },
    });
    embed.down = true;
    const clock = handClock();
    world = await createWorld({ embed, clock });
    await world.index("The hound sleeps.");
    await until(() => clock.sleeps.length === 1);
    expect(clock.sleeps).toEqual([600_000]);
  });

  it("a text that the endpoint refuses holds up no other", async () => {
    const embed = meanings();
    embed.refuse = /cursed/;
    world = await createWorld({ embed });
    const text = "The hound sleeps in a sentence that has some length. ".repeat(100);
    const { id, chunkCount } = await world.index(`${text}A cursed word. ${text}`);
    expect(chunkCount).toBeGreaterThan(4);
    await until(async () => (await embedded(id)) === chunkCount);
    expect(await world.found("puppy")).toHaveLength(chunkCount - 1);
    expect((await world.found("cursed"))[0]).toContain("A cursed word.");
  });
});

describe("an OpenAI-compatible endpoint", () => {
  const signal = new AbortController().signal;
  const open = async (answer: FakeEndpoint["answer"]): Promise<FakeEndpoint> => {
    const endpoint = await startEndpoint();
    onTestFinished(endpoint.close);
    return Object.assign(endpoint, { answer });
  };

  it("is asked as the official clients ask it; vectors come by their index", async () => {
    const data = [
      { index: 1, embedding: [0, 2] },
      { index: 0, embedding: [1, 0] },
    ];
    const { baseUrl, asked } = await open(() => ({ json: { data } }));
    const embedder = createEmbedder({
      baseUrl: `${baseUrl}/`,
      model: "small",
      apiKey: "key",
      fetch,
    });
    expect(await embedder.embed(["a", "b"], signal)).toEqual([
      Float32Array.from([1, 0]),
      Float32Array.from([0, 2]),
    ]);
    expect(asked).toMatchObject([
      {
        path: "/v1/embeddings",
        headers: { authorization: "Bearer key" },
        body: { model: "small", input: ["a", "b"], encoding_format: "float" },
      },
    ]);
  });

  it.each([
    [400, true],
    [413, true],
    [401, false],
    [429, false],
    [500, false],
  ])("status %i", async (status, isRefused) => {
    const { baseUrl } = await open(() => ({ status }));
    const embedder = createEmbedder({ baseUrl, model: "m", fetch });
    await expect(embedder.embed(["a"], signal)).rejects.toMatchObject({ isRefused });
  });

  it("too few vectors are a failure, not vectors of other texts", async () => {
    const { baseUrl } = await open(() => ({ json: { data: [{ index: 0, embedding: [1] }] } }));
    const embedder = createEmbedder({ baseUrl, model: "m", fetch });
    await expect(embedder.embed(["a", "b"], signal)).rejects.toThrow("something else");
  });
});

it("rankings are fused by their ranks (k = 60)", () => {
  const of = (...seqs: number[]) => seqs.map((seq) => ({ seq, score: 1 }));
  const fused = fuseRankings([of(1, 2, 3), of(3, 1)]);
  expect(fused.map(({ seq }) => seq)).toEqual([1, 3, 2]);
  expect(fused[0]?.score).toBeCloseTo(1 / 61 + 1 / 62, 12);
  expect(fused[2]?.score).toBeCloseTo(1 / 62, 12);
});
