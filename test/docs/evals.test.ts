import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createEvalWorld, sumUp, type EvalWorld } from "../cli/eval-world.ts";

/** The blocks of the page are run in their order, and their output has the lines that follow them. */
const PAGE = readFileSync(resolve(import.meta.dirname, "../../docs/evals.md"), "utf8");
const blocks = [...PAGE.matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map(
  ([, language = "", text = ""]) => ({ language, text: text.trimEnd() }),
);

let world: EvalWorld;
beforeAll(async () => {
  world = await createEvalWorld((asked) =>
    asked.instructions.includes("You judge")
      ? { text: '{"reason":"The same facts.","pass":true}' }
      : sumUp(asked),
  );
  await world.record([7]);
  await world.cli.write("shorter.md", "Sum up each order. Be brief.");
});
afterAll(() => world.close());

it("docs/evals.md goes from a recorded run to a comparison", async () => {
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

it("the case of the page works as it is written", async () => {
  await world.cli.write(
    "tests/shop/page.json5",
    blocks.find(({ language }) => language === "json5")?.text ?? "",
  );
  const { code, out } = await world.cli.rouse(["test", "--filter", "page"]);
  expect([code, out]).toEqual([0, "1 fixture: 1 as expected\n"]);
});
