import { afterEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { definePlugin } from "../../src/plugin/api.ts";
import type { ModelRequest, Said } from "./vendors.ts";
import { createModelWorld, type ModelWorld } from "./world.ts";

const WINDOW = 16_000;
/** At least so much is kept free for what the model says. */
const ANSWER_TOKENS = 7_500;

let world: ModelWorld;
afterEach(() => world.stop());

const log = {
  name: "log",
  description: "Reads a piece of the log.",
  input: z.object({ piece: z.number() }),
  readOnly: true,
  execute: ({ piece }: { piece: number }) => `piece-${piece} ${"entry ".repeat(2_000)}`,
};

async function start(says: (step: number) => Said): Promise<void> {
  world = await createModelWorld({
    plugins: [definePlugin({ id: "shop", tools: () => [log] })],
    handler: ({ body }) =>
      says(body.messages.filter(({ role }: { role: string }) => role === "tool").length),
    provider: { contextTokens: WINDOW },
    agent: { tools: ["shop.*"] },
    config: { hooks: { tools: ["shop.*"], maxMessageChars: 300_000 } },
  });
}

/** The texts of a request in tokens, three characters each. */
const tokensOf = (messages: readonly { content: unknown }[]): number =>
  messages.reduce(
    (sum, { content }) =>
      sum +
      Math.ceil((typeof content === "string" ? content : JSON.stringify(content ?? "")).length / 3),
    0,
  );

describe("the window of a model", () => {
  it("holds what each step of a turn is given: results that have grown too long together are cut, and the run says so", async () => {
    await start((step) =>
      step < 5 ? { tool: "shop__log", input: { piece: step + 1 } } : { text: "Read." },
    );
    const ended = await world.run({ message: "Read the log." });
    expect(ended).toMatchObject({ status: "succeeded", reply: "Read." });
    expect(ended.warnings).toEqual([
      expect.stringMatching(
        /^results of tools were cut by \d+ characters to fit the model's window$/,
      ),
    ]);
    expect(world.model.requests).toHaveLength(6);
    for (const { body } of world.model.requests)
      expect(tokensOf(body.messages)).toBeLessThanOrEqual(WINDOW - ANSWER_TOKENS);
    const [first, last] = [world.model.requests[1], world.model.requests[5]].map((request) =>
      JSON.stringify(request?.body.messages),
    );
    expect(first).not.toContain("[cut:");
    // Each result is there, and the message that began the turn is whole.
    for (const text of ["piece-1 ", "piece-5 ", "Read the log.", "[cut:"])
      expect(last).toContain(text);
  });

  it("holds a message that is larger than itself: it is cut with a note, and the run says by how much", async () => {
    await start(() => ({ text: "Seen." }));
    const ended = await world.run({ message: `begins here ${"word ".repeat(40_000)}` });
    expect(ended).toMatchObject({ status: "succeeded", reply: "Seen." });
    expect(ended.warnings).toEqual([
      expect.stringMatching(/^the message was cut by \d{6} characters to fit the model's window$/),
    ]);
    const { messages } = (world.model.requests[0] as ModelRequest).body as {
      messages: { content: string }[];
    };
    expect(tokensOf(messages)).toBeLessThanOrEqual(WINDOW - ANSWER_TOKENS);
    expect(messages.at(-1)?.content).toMatch(/begins here word [^]*\[cut: \d{6} characters\]/);
  });
});
