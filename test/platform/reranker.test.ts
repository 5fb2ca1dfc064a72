import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { createWorld } from "../e2e/world.ts";
import { startEndpoint, type FakeEndpoint } from "../knowledge/endpoint.ts";
import { DESK, documentsWorld, type DocumentsWorld } from "./documents.ts";

const KEY = "key-of-the-reranker";
const QUESTION = "ferry";
/** Found in this order by words: the shorter a text, the better it fits. The mark is the score of the fake endpoint, times ten. */
const BY_WORDS = [
  "The ferry. {1}",
  "The ferry leaves at nine. {7}",
  "The ferry leaves at nine, but not on Sundays. {5}",
];
const BY_MEANING = [BY_WORDS[1], BY_WORDS[2], BY_WORDS[0]];

let endpoint: FakeEndpoint;
/** All tests share one, with the reranker alone; `start` makes another one. */
let world: DocumentsWorld;

const open = (
  { reranker = {}, embeddings = false }: { reranker?: object; embeddings?: boolean } = {},
  config: Record<string, unknown> = {},
): Promise<DocumentsWorld> => {
  const provider = { type: "openai-compatible", baseUrl: endpoint.baseUrl };
  return documentsWorld({
    logLevel: "trace",
    agents: [{ id: "ops", knowledge: "auto" }, { id: "sales" }],
    providers: { meaning: provider, order: { ...provider, apiKey: KEY } },
    config,
    platform: {
      knowledge: {
        reranker: { provider: "order", model: "large", ...reranker },
        ...(embeddings && { embeddings: { provider: "meaning", model: "small" } }),
      },
    },
  });
};
beforeAll(async () => {
  endpoint = await startEndpoint();
  world = await open();
});
afterAll(async () => {
  await world.close();
  await endpoint.close();
});
beforeEach(() => {
  endpoint.answer = undefined;
  endpoint.asked.length = 0;
  world.model.reset();
});

/** Puts another gateway in place of the shared one, for one test. */
async function start(...options: Parameters<typeof open>): Promise<void> {
  const shared = world;
  world = await open(...options);
  onTestFinished(async () => {
    await world.close();
    world = shared;
  });
}

async function addFerries(): Promise<void> {
  for (const [index, text] of BY_WORDS.entries()) await world.index(`ferry-${index}.txt`, text);
}

const reranked = (): number => endpoint.count("/v1/rerank");

/** Asks an agent that is given passages. Returns the messages that its model gets. */
async function ask(content: string): Promise<string> {
  await world.call(
    "/v1/chat/completions",
    { model: "ops", messages: [{ role: "user", content }] },
    { key: DESK },
  );
  return JSON.stringify(world.model.asked.at(-1)?.body.messages);
}

describe("a reranker", () => {
  it("orders what a search finds, and its scores are those of the passages", async () => {
    await addFerries();
    const { body } = await world.call("/v1/knowledge/search", { query: QUESTION }, { key: DESK });
    const found = body.data.map(({ text, score }: { text: string; score: number }) => [
      text,
      score,
    ]);
    expect(found).toEqual([
      [BY_WORDS[1], 0.7],
      [BY_WORDS[2], 0.5],
      [BY_WORDS[0], 0.1],
    ]);
    expect(endpoint.asked).toHaveLength(1);
    const [{ path, headers, body: sent } = endpoint.asked[0] as never] = endpoint.asked;
    expect([path, headers.authorization]).toEqual(["/v1/rerank", `Bearer ${KEY}`]);
    const { documents, ...rest } = sent as { documents: string[] };
    expect(rest).toEqual({ model: "large", query: QUESTION, top_n: 3 });
    expect(documents).toEqual(BY_WORDS);
    expect(await world.search("unheard")).toEqual([]);
    expect(reranked()).toBe(1);
    await world.index(
      "birds.md",
      `# Harbour\n\n${"The heron waits for the tide to fall. ".repeat(90)}`,
    );
    expect((await world.search("heron")).length).toBeGreaterThan(1);
    for (const text of endpoint.asked.at(-1)?.documents ?? [])
      expect(text).toMatch(/^Harbour\s+The heron/);
  });

  it("orders more passages than are wanted, and `passages` of them at most", async () => {
    await start({ reranker: { passages: 2 } });
    await addFerries();
    const { body } = await world.call("/v1/knowledge/search", { query: QUESTION }, { key: DESK });
    expect(body.data.map(({ text }: { text: string }) => text)).toEqual([
      BY_WORDS[1],
      BY_WORDS[0],
      BY_WORDS[2],
    ]);
    const scores = body.data.map(({ score }: { score: number }) => score);
    expect(scores).toEqual(scores.toSorted((a: number, b: number) => b - a));
    expect(endpoint.asked[0]?.documents).toEqual(BY_WORDS.slice(0, 2));
    // The second by words is the best one.
    expect(await world.search(QUESTION, { limit: 1 })).toEqual([BY_WORDS[1]]);
  });

  it("orders what words and vectors have found together", async () => {
    await start({ embeddings: true });
    await world.index("hound.txt", "The hound sleeps in its basket. {3}");
    await world.index("puppy.txt", "A puppy barks. {8}");
    await world.until(async () => (await world.search("dog")).length === 2);
    expect(await world.search("hound")).toEqual([
      "A puppy barks. {8}",
      "The hound sleeps in its basket. {3}",
    ]);
  });

  it("orders passages before those of one document are limited, and what the tool finds", async () => {
    const parts = Array.from(
      { length: 7 },
      (_, n) => `# Part ${n}\n\n${"The gannet dives from the cliff. ".repeat(40)}{${n}}`,
    );
    expect((await world.index("birds.md", parts.join("\n\n"))).body.chunk_count).toBe(7);
    await world.index("note.txt", "A gannet was seen once. {0.5}");
    const asked = await ask("gannet");
    // Of eight passages the best four of the one document, the best one first.
    expect([...asked.matchAll(/\{([\d.]+)\}/g)].map(([, mark]) => mark)).toEqual([
      "6",
      "5",
      "4",
      "3",
      "0.5",
    ]);

    const first = world.model.asked.length;
    const calls = [{ id: "call_1", name: "knowledge_search", arguments: '{"query":"gannet"}' }];
    world.model.says = (_asked, call) => (call === first ? { calls } : { text: ["Done."] });
    await world.call(
      "/v1/chat/completions",
      { model: "sales", messages: [{ role: "user", content: "Look." }] },
      { key: DESK },
    );
    const result = JSON.stringify(world.model.asked.at(-1)?.body.messages.at(-1));
    expect([...result.matchAll(/\{([\d.]+)\}/g)].map(([, mark]) => mark)).toEqual([
      "6",
      "5",
      "4",
      "3",
      "2",
      "1",
      "0.5",
      "0",
    ]);
  });

  it("with `minScore`, refuses passages for turns that have not asked for any", async () => {
    await start({ reranker: { minScore: 0.6 }, embeddings: true });
    await world.index("vacation.md", "Employees have 30 days of paid vacation a year. {5}");
    await world.index("sea.md", "How a vessel crosses the sea. {7}");
    await world.until(async () => (await world.search("boat")).length === 2);
    const asked = await ask("Tell me about vacation and the sea.");
    expect(asked).toContain("How a vessel crosses");
    expect(asked).not.toContain("Employees have");
    expect(await world.search("vacation and the sea")).toHaveLength(2);
    // Without the reranker nothing says what does not help.
    endpoint.answer = ({ path }) => (path === "/v1/rerank" ? { status: 500 } : undefined);
    expect(await ask("Tell me about vacation and the sea.")).toContain("Employees have");
  });

  it("is not asked about what has too little of the question's words", async () => {
    await world.index("vacation.md", "Employees have 30 days of paid vacation a year. {5}");
    expect(
      await ask("Write a poem about the year of the cormorant, the gull and the puffin."),
    ).not.toContain("Employees have");
    expect(reranked()).toBe(0);
    expect(await ask("How many days of vacation do employees have?")).toContain("Employees have");
    expect(reranked()).toBe(1);
  });

  it("needs a provider that the config has", async () => {
    const platform = { knowledge: { reranker: { provider: "ordr", model: "large" } } };
    const models = {
      providers: { order: { type: "openai-compatible", baseUrl: endpoint.baseUrl } },
    };
    await expect(createWorld({ config: { platform, models } })).rejects.toMatchObject({
      issues: [
        {
          path: "platform.knowledge.reranker.provider",
          message: expect.stringMatching(/^models.providers has no "\w+". Did you mean "order"\?$/),
        },
      ],
    });
  });
});

const score = (index: unknown, relevance: unknown = 0.5): object => ({
  index,
  relevance_score: relevance,
});

describe("a reranker that gives no order", () => {
  const ANSWERS: [what: string, answer: object][] = [
    ["a missing passage", { json: { results: [score(0), score(1)] } }],
    ["a passage twice", { json: { results: [score(0), score(1), score(1), score(2)] } }],
    [
      "a passage that was not sent",
      { json: { results: [score(0), score(1), score(2), score(3)] } },
    ],
    ["a passage before the first", { json: { results: [score(0), score(1), score(-1)] } }],
    ["an index that is text", { json: { results: [score("0"), score("1"), score("2")] } }],
    ["no number as a score", { json: { results: [score(0), score(1), score(2, null)] } }],
    [
      "a score without bounds",
      {
        text: '{"results":[{"index":0,"relevance_score":1e999},{"index":1,"relevance_score":1},{"index":2,"relevance_score":1}]}',
      },
    ],
    ["entries that are none", { json: { results: [null, 1, "x"] } }],
    ["no results", { json: { data: [] } }],
    ["something else than JSON", { text: "<html>" }],
    ["an error", { status: 500 }],
    ["a refusal", { status: 401 }],
  ];

  it("leaves the search its own order, whatever is wrong with the answer", async () => {
    await addFerries();
    for (const [what, answer] of ANSWERS) {
      const before = reranked();
      world.logged.length = 0;
      endpoint.answer = () => answer;
      expect([what, await world.search(QUESTION), reranked() - before]).toEqual([
        what,
        BY_WORDS,
        1,
      ]);
      const lines = world.logged.filter((line) => line.includes('"of":"reranker:order/large"'));
      expect(lines).toEqual([
        expect.stringContaining("no reranking of passages: they stay in the order of the search"),
      ]);
      expect(world.logged.join("\n")).not.toMatch(new RegExp(`${KEY}|ferry leaves`));
    }
    endpoint.answer = undefined;
    expect(await world.search(QUESTION)).toEqual(BY_MEANING);
  });
});
