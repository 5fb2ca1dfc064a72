import { afterEach, beforeEach, expect, it } from "vitest";
import { platformWorld, type PlatformWorld } from "./world.ts";

const WORDS = "word ".repeat(150);
const SUMMARY = "SUMMARY: the tiles are blue.";

let world: PlatformWorld;
beforeEach(async () => {
  world = await platformWorld({ contextTokens: 12_000 });
  world.model.says = ({ body }) => ({ text: [isSummary(body) ? SUMMARY : "noted"] });
});
afterEach(() => world.close());

interface Body {
  messages: { role: string; content: string }[];
}
const isSummary = ({ messages }: Body): boolean =>
  messages[0]?.content.includes("You summarise") ?? false;
const getSummaries = (): Body[] =>
  world.model.asked.map(({ body }) => body as Body).filter(isSummary);
const lastTurn = (): string =>
  JSON.stringify(world.model.asked.findLast(({ body }) => !isSummary(body as Body))?.body.messages);

const chat = async (content: string) =>
  (await world.chat({ messages: [{ role: "user", content }] }, { "x-session-id": "s" })).body as {
    usage: { prompt_tokens: number };
  };
const respond = async (input: string, previous?: string): Promise<string> =>
  (
    await world.call("/v1/responses", {
      model: "ops",
      input,
      ...(previous === undefined ? {} : { previous_response_id: previous }),
    })
  ).body.id;

it("a named session continues with the summary of its older turns, and the answer counts what that has used", async () => {
  const usage: number[] = [];
  for (let n = 1; n <= 12; n++) usage.push((await chat(`note-${n} ${WORDS}`)).usage.prompt_tokens);
  expect(getSummaries().length).toBeGreaterThan(0);
  expect(usage.filter((tokens) => tokens === 22)).toHaveLength(getSummaries().length);
  expect(lastTurn()).toContain(SUMMARY);
  expect(lastTurn()).not.toContain("note-1 ");
  // Only the caller has written: the summary stands without a boundary.
  expect(lastTurn()).not.toMatch(/<<<EXTERNAL_CONTENT [0-9a-f]{32}>>>/);
});

it("a caller that sends the conversation itself gets it as it is: no summary of it is made", async () => {
  const messages = Array.from({ length: 31 }, (_, n) => ({
    role: n % 2 === 0 ? "user" : "assistant",
    content: `note-${n} ${WORDS}`,
  }));
  for (const headers of [{}, { "x-session-id": "s" }])
    expect((await world.chat({ messages }, headers)).status).toBe(200);
  expect(getSummaries()).toEqual([]);
});

it("responses with `previous_response_id` continue with the summary too, and so does a branch of them", async () => {
  const ids: string[] = [];
  for (let n = 1; n <= 12; n++) ids.push(await respond(`note-${n} ${WORDS}`, ids.at(-1)));
  expect(lastTurn()).toContain(SUMMARY);
  const before = getSummaries().length;
  expect(before).toBeGreaterThan(0);
  const branch = await respond("branch", ids[10]);
  expect(lastTurn()).toContain(SUMMARY);
  expect([lastTurn().includes("note-11 "), lastTurn().includes("note-12 ")]).toEqual([true, false]);
  const after = await respond("further", branch);
  for (const text of [SUMMARY, "note-11 ", "branch", "further"]) expect(lastTurn()).toContain(text);
  expect(getSummaries()).toHaveLength(before);
  // A branch from before the summary sees the turns themselves.
  await respond("early", ids[1]);
  expect(lastTurn()).not.toContain(SUMMARY);
  for (const text of ["note-1 ", "note-2 ", "early"]) expect(lastTurn()).toContain(text);
  // The conversation itself goes on as before.
  await respond("last", ids[11]);
  expect(lastTurn()).toContain("note-12 ");
  expect(lastTurn()).not.toContain("branch");
  expect(after).not.toBe(branch);
});
