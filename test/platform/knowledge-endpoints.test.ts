import { afterEach, describe, expect, it } from "vitest";
import { FAILURES_TO_OPEN } from "../../src/core/breaker.ts";
import { systemClock } from "../../src/core/clock.ts";
import { startEndpoint, type EndpointRequest, type FakeEndpoint } from "../knowledge/endpoint.ts";
import { documentsWorld, type DocumentsWorld } from "./documents.ts";

const MINUTE = 60_000;

interface Subject {
  /** The name of its breaker. */
  of: string;
  knowledge: object;
  documents: readonly string[];
  question: string;
  /** The results of the question: without an answer of the endpoint, and with it. */
  without: readonly string[];
  found: readonly string[];
  /** The line in the log about a search without the endpoint. */
  says: string;
  isAsked(request: EndpointRequest, question: string): boolean;
}

/** Found in this order by words: the shorter a text, the better it fits. The mark is the score of the fake endpoint. */
const FERRIES = ["The ferry. {1}", "The ferry leaves at nine. {7}"];
const HOUND = "The hound sleeps in its basket.";
const EMBEDDINGS: Subject = {
  of: "embeddings:meaning/small",
  knowledge: { embeddings: { provider: "meaning", model: "small" } },
  documents: [HOUND],
  question: "puppy",
  without: [],
  found: [HOUND],
  says: "answered by words alone",
  isAsked: ({ path, input }, question) => path === "/v1/embeddings" && input[0] === question,
};
const RERANKER: Subject = {
  of: "reranker:meaning/large",
  knowledge: { reranker: { provider: "meaning", model: "large" } },
  documents: FERRIES,
  question: "ferry",
  without: FERRIES,
  found: FERRIES.toReversed(),
  says: "no reranking of passages",
  isAsked: ({ path }) => path === "/v1/rerank",
};

let endpoint: FakeEndpoint;
let world: DocumentsWorld;
let shift = 0;

afterEach(async () => {
  await world.close();
  await endpoint.close();
  shift = 0;
});

/** A gateway with documents that the endpoint helps to find. The time of its clock is moved on by `shift`. */
async function start({ of, knowledge, documents, question, found, isAsked }: Subject) {
  endpoint = await startEndpoint();
  world = await documentsWorld({
    logLevel: "trace",
    clock: { now: () => Date.now() + shift, sleep: systemClock.sleep },
    providers: { meaning: { type: "openai-compatible", baseUrl: endpoint.baseUrl } },
    platform: { knowledge },
  });
  for (const [index, text] of documents.entries()) await world.index(`${index}.txt`, text);
  await world.until(async () => (await world.search(question)).length === found.length);
  endpoint.asked.length = 0;
  return {
    search: () => world.search(question),
    count: () => endpoint.asked.filter((request) => isAsked(request, question)).length,
    breaker: async () =>
      (await world.admin("/readyz?detail")).body.breakers.find(
        (breaker: { of: string }) => breaker.of === of,
      ),
  };
}

it("an endpoint gets no half of a surrogate pair of a question, which it would reject", async () => {
  await start(EMBEDDINGS);
  await world.search("puppy \ud83d");
  expect(endpoint.asked.flatMap(({ input }) => input)).toEqual(["puppy \ufffd"]);
});

describe.each([EMBEDDINGS, RERANKER])("an endpoint that gives no answer: $of", (subject) => {
  const { of, without, found, says } = subject;

  it("is not waited for after some failures, and a test brings it back", async () => {
    const { search, count, breaker } = await start(subject);
    endpoint.answer = () => "hang";
    const answers = await Promise.all(Array.from({ length: FAILURES_TO_OPEN }, search));
    expect(answers).toEqual(answers.map(() => without));
    expect(count()).toBe(FAILURES_TO_OPEN);
    expect(await breaker()).toMatchObject({ state: "open", waiting: 0 });
    expect((await world.admin("/metrics")).body).toContain(`rouse_breaker_open{of="${of}"} 1`);
    const { checks } = (await world.admin("/admin/v1/doctor")).body;
    expect(checks.find(({ id }: { id: string }) => id === "breakers").message).toContain(
      `${of} since`,
    );

    expect(await search()).toEqual(without);
    expect(count()).toBe(FAILURES_TO_OPEN);
    // The next question is the test. It is answered while the test has no answer yet.
    shift += MINUTE;
    expect(await search()).toEqual(without);
    await world.until(() => Promise.resolve(count() === FAILURES_TO_OPEN + 1));
    await expect.poll(() => endpoint.hanging()).toBe(1);
    expect(await search()).toEqual(without);
    expect(count()).toBe(FAILURES_TO_OPEN + 1);
    await world.until(async () => (await breaker()).state === "open");

    endpoint.answer = undefined;
    shift += 2 * MINUTE;
    expect(await search()).toEqual(without);
    await world.until(
      async () => (await breaker())?.state !== "open" && (await breaker())?.state !== "testing",
    );
    expect(await search()).toEqual(found);
    const lines = world.logged.filter((line) => line.includes(`"of":"${of}"`));
    expect(lines.filter((line) => line.includes(says))).toHaveLength(FAILURES_TO_OPEN + 1);
  });

  it("is asked again after its Retry-After, and not before", async () => {
    const { search, count, breaker } = await start(subject);
    endpoint.answer = () => ({ status: 429, headers: { "retry-after": "600" } });
    expect(await search()).toEqual(without);
    expect(count()).toBe(1);
    endpoint.answer = undefined;
    shift += 9 * MINUTE;
    expect(await search()).toEqual(without);
    expect([count(), await breaker()]).toMatchObject([1, { state: "open" }]);
    shift += 2 * MINUTE;
    await search();
    await world.until(() => Promise.resolve(count() === 2));
  });
});

it("an embedding endpoint is still asked if it answers with errors about single questions", async () => {
  const { search, count } = await start(EMBEDDINGS);
  endpoint.answer = (request) =>
    EMBEDDINGS.isAsked(request, EMBEDDINGS.question) ? { status: 400 } : undefined;
  for (let asked = 0; asked <= FAILURES_TO_OPEN; asked++) expect(await search()).toEqual([]);
  expect(count()).toBe(FAILURES_TO_OPEN + 1);
  expect(await world.search("dog")).toEqual([HOUND]);
});
