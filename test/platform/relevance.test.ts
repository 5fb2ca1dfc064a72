import { expect, it } from "vitest";
import { DESK, documentsWorld } from "./documents.ts";

const VACATION =
  "Full-time employees have 30 days of paid vacation a year. Part-time employees have vacation in proportion to their hours.";
const UMBRELLAS =
  "Потерянные зонты хранятся на складе девяносто дней. После этого они передаются музею.";
const DELIVERIES =
  "Die Krankenhäuser der Insel werden jeden Morgen beliefert. Das ist für die Patienten wichtig.";
const TEA = "客户服务部每天上午九点开始工作，周末不工作。退货必须在三十天内寄回仓库。";

it("a turn is given only passages that have enough of what is asked, or of what was asked before", async () => {
  const world = await documentsWorld({
    agents: [{ id: "ops", knowledge: "auto" }, { id: "sales" }],
  });
  await world.index("vacation.md", VACATION);
  await world.index("зонты.md", UMBRELLAS);
  await world.index("insel.md", DELIVERIES);
  await world.index("服务.md", TEA);
  /** The names of the documents whose passages a question gets. */
  const ask = async (...conversation: string[]): Promise<string[]> => {
    const messages = conversation.map((content, index) => ({
      role: index % 2 === 0 ? "user" : "assistant",
      content,
    }));
    await world.call("/v1/chat/completions", { model: "ops", messages }, { key: DESK });
    const asked = JSON.stringify(world.model.asked.at(-1)?.body.messages);
    return [...asked.matchAll(/document ([\p{L}.]+) \(doc_/gu)].map(([, name]) => name as string);
  };
  const questions: [question: string, found: string[]][] = [
    ["How many days of vacation do employees have?", ["vacation.md"]],
    ["How long are lost umbrellas kept?", []],
    ["Сколько дней хранятся зонты?", ["зонты.md"]],
    ["Wann wird ein Krankenhaus beliefert?", ["insel.md"]],
    ["退货要在多少天内寄回？", ["服务.md"]],
    ["What should I cook for dinner tonight, if I have only a few days?", []],
    ["写一首关于大海的诗", []],
  ];
  for (const [question, found] of questions)
    expect([question, await ask(question)]).toEqual([question, found]);
  const before = ["How many days of vacation do employees have?", "30 days."];
  expect(await ask(...before, "And in their first year?")).toEqual(["vacation.md"]);
  expect(await ask(...before, "Write a poem about the sea.")).toEqual([]);
  expect(await ask("退货要在多少天内寄回？", "三十天。", "周末呢？")).toEqual(["服务.md"]);
  // The search that a model asks for has no such limit.
  expect((await world.search("a poem about vacation by the sea in days of old"))[0]).toBe(VACATION);
  expect(world.staged()).toEqual([]);
  await world.close();
});
