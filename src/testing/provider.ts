import { describe, expect, it } from "vitest";
import type { ModelProvider, ModelSettings } from "../contract/kinds.ts";
import {
  expectNoSecret,
  expectText,
  openForEachTest,
  within,
  type Harness,
  type Open,
} from "./harness.ts";

/** A provider with a server that answers as its vendor does. */
export interface ProviderHarness extends Harness {
  provider: ModelProvider;
  /** Settings that reach the server. `apiKey` has at least 8 characters and stands in no answer of the server. */
  settings: ModelSettings;
  model: string;
  /** The text that the server answers each question with, whole and as a stream. */
  reply: string;
  /** The requests that have arrived at the server, oldest first. Names of headers are lower-case. */
  requests(): { headers: Readonly<Record<string, unknown>>; body: string }[];
  /** Makes the server answer with this status and an error of the vendor from now on. */
  fail(status: number): void;
  /** Settings that `check` must object to. */
  wrong?: ModelSettings;
}

const QUESTION = "What is the weather in Reykjavík?";
const MARK = { name: "x-mark-of-the-suite", value: "mark-7f3a" };
const TURN_MS = 10_000;

/** A call as an agent's turn makes it. Counts what goes through the given `fetch`. */
async function createCall({ provider, settings, model }: ProviderHarness) {
  let fetched = 0;
  const counting: typeof fetch = (...request) => {
    fetched++;
    return fetch(...request);
  };
  const marked = { ...settings, headers: { ...settings.headers, [MARK.name]: MARK.value } };
  const made = (await provider.create(marked, { fetch: counting }))(model);
  // The types of the model belong to the package `ai`, which the types of plugins do not name.
  const call = {
    model: made as never,
    prompt: QUESTION,
    maxRetries: 0,
    abortSignal: AbortSignal.timeout(TURN_MS),
  };
  return { made, call, fetched: () => fetched };
}

/** Declares the tests that every model provider passes: one answer, one stream, and errors without the key. */
export function testProvider(name: string, open: Open<ProviderHarness>): void {
  describe(`provider ${name}`, () => {
    const harness = openForEachTest(open);

    it("accepts right settings and objects to wrong ones", () => {
      const { provider, settings, wrong } = harness();
      expectText(provider.type);
      expect(provider.check?.(settings) ?? []).toEqual([]);
      if (!wrong) return;
      const problems = provider.check?.(wrong) ?? [];
      expect(problems.length).toBeGreaterThan(0);
      for (const { field, message } of problems) {
        expect(["baseUrl", "apiKey", "headers"]).toContain(field);
        expectText(message);
        expectNoSecret(message, [settings.apiKey ?? MARK.value]);
      }
    });

    it("makes a model without asking the vendor", async () => {
      const { made, fetched } = await createCall(harness());
      expect(made.modelId).toBe(harness().model);
      expectText(made.provider);
      expect(made.specificationVersion).toMatch(/^v\d+$/);
      expect([fetched(), harness().requests()]).toEqual([0, []]);
    });

    it("answers a question, through the given fetch and with the headers of the settings", async () => {
      const { call, fetched } = await createCall(harness());
      const { generateText } = await import("ai");
      const { text } = await within(TURN_MS, "the answer", generateText(call));
      expect([text, fetched()]).toEqual([harness().reply, 1]);
      expectRequest(harness());
    });

    it("streams an answer", async () => {
      const { call, fetched } = await createCall(harness());
      const { streamText } = await import("ai");
      let text = "";
      for await (const piece of streamText(call).textStream) text += piece;
      expect([text, fetched()]).toEqual([harness().reply, 1]);
      expectRequest(harness());
    });

    it.each([401, 429, 500])(
      "fails if the vendor answers %i, without the key in the error",
      async (status) => {
        const { call } = await createCall(harness());
        harness().fail(status);
        const { generateText } = await import("ai");
        const error: unknown = await within(TURN_MS, "the answer", generateText(call)).catch(
          (thrown: unknown) => thrown,
        );
        expect(error).toBeInstanceOf(Error);
        // The status decides whether the run is tried again.
        expect(error).toMatchObject({ statusCode: status });
        expectNoSecret((error as Error).message, [harness().settings.apiKey ?? MARK.value]);
      },
    );
  });
}

function expectRequest({ requests, settings }: ProviderHarness): void {
  const [sent] = requests();
  expect(requests()).toHaveLength(1);
  // A vendor may want other text escaped in JSON.
  expect(sent?.body).toMatch(/What is the weather in Reykjav(?:í|\\u00ed)k\?/i);
  expect(sent?.headers[MARK.name]).toBe(MARK.value);
  if (settings.apiKey !== undefined)
    expect(JSON.stringify(sent?.headers)).toContain(settings.apiKey);
}
