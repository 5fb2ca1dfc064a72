import { expect } from "vitest";
import type { CheckAnswer, Prompts } from "../../src/cli/prompts.ts";

/** A part of a question, and what is typed or chosen. */
export type Line = [question: string, answer: string | string[]];

/** Types the answers in order. One that is refused is followed by the next of the script, for the same question. */
export function typed(script: readonly Line[]): Prompts & { left: Line[]; refused: string[] } {
  const left = [...script];
  const refused: string[] = [];
  const answer = async (options: { message: string; check?: CheckAnswer }): Promise<never> => {
    for (;;) {
      const [question, given] = left.shift() ?? ["nothing more", ""];
      expect(options.message).toContain(question);
      const problem = typeof given === "string" ? options.check?.(given) : undefined;
      if (problem === undefined) return given as never;
      refused.push(problem);
    }
  };
  return {
    text: answer,
    password: answer,
    select: answer,
    multiselect: answer,
    note: async () => undefined,
    left,
    refused,
  };
}
