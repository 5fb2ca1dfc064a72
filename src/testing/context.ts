import { describe, expect, it } from "vitest";
import type { ContextProvider, Part } from "../contract/kinds.ts";
import {
  expectNoSecret,
  expectText,
  openForEachTest,
  within,
  type Harness,
  type Open,
} from "./harness.ts";

export interface ContextHarness extends Harness {
  provider: ContextProvider;
  /** A question that the provider knows something about. */
  question: string;
  /** Words that the text for the question holds. */
  text: readonly [string, ...string[]];
  /** Text that came from outside: it may not be in a part that counts as the operator's. */
  outside?: readonly string[];
  /** Texts that may not be in any part: credentials. */
  secrets?: readonly string[];
}

/** The gateway waits this long for a provider. */
const PROVIDER_MS = 10_000;

/** Declares the tests that every context provider passes: its text has an origin, and a cancelled turn ends it. */
export function testContext(name: string, open: Open<ContextHarness>): void {
  describe(`context ${name}`, () => {
    const harness = openForEachTest(open);
    const ask = async (
      question: string,
      signal = AbortSignal.timeout(PROVIDER_MS),
    ): Promise<readonly Part[]> => {
      const turn = {
        agentId: "main",
        sessionKey: "hook:one",
        runId: "run_1",
        kind: "hook",
        question,
        signal,
      } as const;
      return within(PROVIDER_MS, "the provider", harness().provider(Object.freeze(turn)));
    };
    const expectParts = (parts: readonly Part[]): void => {
      for (const { text, from, label } of parts) {
        expectText(text);
        expect(["operator", "outside"]).toContain(from);
        // A label stands outside the boundary: it is one short line.
        if (label !== undefined) expect(label).toMatch(/^[^\p{Cc}\p{Zl}\p{Zp}]{1,100}$/u);
        if (from === "operator") expectNoSecret(text, harness().outside ?? []);
        expectNoSecret(`${label ?? ""} ${text}`, harness().secrets ?? []);
      }
    };

    it("adds what it knows about a question", async () => {
      const parts = await ask(harness().question);
      expectParts(parts);
      const text = parts.map((part) => part.text).join("\n");
      for (const words of harness().text) expect(text).toContain(words);
    });

    it("gives the same to turns that ask side by side", async () => {
      const { question } = harness();
      const [first, second] = await Promise.all([ask(question), ask(question)]);
      expect(second).toEqual(first);
    });

    it.each(["", "   ", "x".repeat(100_000), "?'\"%_\u0000\\"])(
      "survives the question %j",
      async (question) => {
        expectParts(await ask(question.slice()));
      },
    );

    it("ends soon if the turn is cancelled", async () => {
      const asked = ask(harness().question, AbortSignal.abort()).catch(() => []);
      expectParts(await within(1_000, "the cancelled provider", asked));
    });
  });
}
