import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createAgentsWorld, sumUp, type AgentsWorld } from "../cli/agents-world.ts";

/** The blocks of the page are run in their order, and their output has the lines that follow them. */
const PAGE = readFileSync(resolve(import.meta.dirname, "../../docs/testing.md"), "utf8");
const blocks = [...PAGE.matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map(
  ([, language = "", text = ""]) => ({ language, text: text.trimEnd() }),
);

let world: AgentsWorld;
beforeAll(async () => {
  world = await createAgentsWorld((asked) =>
    asked.instructions.includes("You judge")
      ? { text: '{"reason":"The same facts.","pass":true}' }
      : sumUp(asked),
  );
  await world.record([7]);
  await world.cli.write("before.json5", world.config());
  await world.cli.write("rouse.json5", world.withPrompt("Sum up each order. Be brief."));
});
afterAll(() => world.close());

it("docs/testing.md goes from a recorded event and a recorded run to a comparison", async () => {
  let printed = "";
  const ran: string[] = [];
  for (const { language, text } of blocks) {
    if (language === "") for (const line of text.split("\n")) expect(printed).toContain(line);
    if (language !== "sh") continue;
    const [, ...args] = text.split(" ");
    const { code, out, err } = await world.cli.rouse(args);
    expect([text, code, code === 0 ? "" : err + out]).toEqual([text, 0, ""]);
    printed = out;
    ran.push(text);
  }
  expect(ran).toHaveLength(5);
});

it("the fixtures of the page work as they are written", async () => {
  const written = blocks.filter(({ language }) => language === "json5");
  for (const [index, { text }] of written.entries())
    await world.cli.write(`tests/shop/page-${index}.json5`, text);
  const { code, out } = await world.cli.rouse("test --filter page");
  expect([code, out]).toEqual([0, "2 fixtures: 2 as expected\n"]);
});
