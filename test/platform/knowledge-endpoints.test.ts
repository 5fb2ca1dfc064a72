import { afterEach, describe, expect, it } from "vitest";
import { FAILURES_TO_OPEN } from "../../src/core/breaker.ts";
import { systemClock } from "../../src/core/clock.ts";
import { startEndpoint, type EndpointRequest, type FakeEndpoint } from "../knowledge/endpoint.ts";
import { documentsWorld, type DocumentsWorld } from "./documents.ts";

const MINUTE = 60_000;
const HOUND = "The hound sleeps in its basket.";
const QUESTION = "Where is the basket of the puppy?";

let endpoint: FakeEndpoint;
let world: DocumentsWorld;
let shift = 0;

afterEach(async () => {
  await world.close();
  await endpoint.close();
  shift = 0;
});

/** A gateway whose documents are found by words and by meaning. The time of its clock is moved on by `shift`. */
async function start(): Promise<void> {
  endpoint = await startEndpoint();
  const provider = { type: "openai-compatible", baseUrl: endpoint.baseUrl };
  world = await documentsWorld({
    logLevel: "trace",
    clock: { now: () => Date.now() + shift, sleep: systemClock.sleep },
    config: {
      models: { providers: { local: provider, meaning: provider } },
    },
    platform: { knowledge: { embeddings: { provider: "meaning", model: "small" } } },
  });
  expect((await world.index("hound.txt", HOUND)).body.status).toBe("ready");
  await world.until(async () => (await world.search("puppy")).length > 0);
  endpoint.asked.length = 0;
}

const isQuestion = ({ path, input }: EndpointRequest): boolean =>
  path === "/v1/embeddings" && input[0] === QUESTION;
const questions = (): number => endpoint.asked.filter(isQuestion).length;
const breaker = async () =>
  (await world.admin("/readyz?detail")).body.breakers.find(
    ({ of }: { of: string }) => of === "embeddings:meaning/small",
  );

/** Asks so often that the breaker opens. */
async function openBreaker(): Promise<void> {
  const answers = await Promise.all(
    Array.from({ length: FAILURES_TO_OPEN }, () => world.search(QUESTION)),
  );
  // Words alone have answered.
  expect(answers).toEqual(Array.from({ length: FAILURES_TO_OPEN }, () => [HOUND]));
  expect(questions()).toBe(FAILURES_TO_OPEN);
}

describe("an embedding endpoint that gives no answer", () => {
  it("is not waited for after some failures, and a test brings it back", async () => {
    await start();
    endpoint.answer = () => "hang";
    await openBreaker();
    expect(await breaker()).toMatchObject({ state: "open", waiting: 0 });
    expect((await world.admin("/metrics")).body).toContain(
      'rouse_breaker_open{of="embeddings:meaning/small"} 1',
    );
    const { checks } = (await world.admin("/admin/v1/doctor")).body;
    expect(checks.find(({ id }: { id: string }) => id === "breakers").message).toContain(
      "embeddings:meaning/small since",
    );

    expect(await world.search(QUESTION)).toEqual([HOUND]);
    expect(questions()).toBe(FAILURES_TO_OPEN);
    // The next question is the test. It is answered while the test has no answer yet.
    shift += MINUTE;
    expect(await world.search(QUESTION)).toEqual([HOUND]);
    await world.until(() => Promise.resolve(questions() === FAILURES_TO_OPEN + 1));
    expect(endpoint.hanging()).toBe(1);
    expect(await world.search(QUESTION)).toEqual([HOUND]);
    expect(questions()).toBe(FAILURES_TO_OPEN + 1);
    await world.until(async () => (await breaker()).state === "open");

    endpoint.answer = undefined;
    shift += 2 * MINUTE;
    expect(await world.search("puppy")).toEqual([]);
    await world.until(
      async () => (await breaker())?.state !== "open" && (await breaker())?.state !== "testing",
    );
    expect(await world.search("puppy")).toEqual([HOUND]);
    const lines = world.logged.filter((line) => line.includes('"of":"embeddings:meaning/small"'));
    expect(lines.filter((line) => line.includes("answered by words alone"))).toHaveLength(
      FAILURES_TO_OPEN + 1,
    );
  });

  it("is asked again after its Retry-After, and not before", async () => {
    await start();
    endpoint.answer = () => ({ status: 429, headers: { "retry-after": "600" } });
    expect(await world.search(QUESTION)).toEqual([HOUND]);
    expect(questions()).toBe(1);
    endpoint.answer = undefined;
    shift += 9 * MINUTE;
    expect(await world.search(QUESTION)).toEqual([HOUND]);
    expect(questions()).toBe(1);
    expect(await breaker()).toMatchObject({ state: "open" });
    shift += 2 * MINUTE;
    await world.search(QUESTION);
    await world.until(() => Promise.resolve(questions() === 2));
  });

  it("is still asked if it answers with errors about single questions", async () => {
    await start();
    endpoint.answer = (request) => (isQuestion(request) ? { status: 400 } : undefined);
    for (let asked = 0; asked <= FAILURES_TO_OPEN; asked++)
      expect(await world.search(QUESTION)).toEqual([HOUND]);
    expect(questions()).toBe(FAILURES_TO_OPEN + 1);
    expect(await world.search("puppy")).toEqual([HOUND]);
  });
});
