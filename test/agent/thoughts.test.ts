import { describe, expect, it } from "vitest";
import { ThoughtReader, splitThoughts } from "../../src/agent/thoughts.ts";

/** The output of a model, its thoughts, and its answer. */
const CASES: [string, string, string[], string][] = [
  ["<think>", "<think>a</think>b", ["a"], "b"],
  ["a relative", "<thinking>a</thinking>b", ["a"], "b"],
  ["another relative", "<thought>a</thought>b", ["a"], "b"],
  ["that of models trained by prompts", "<reasoning>a</reasoning>b", ["a"], "b"],
  ["that of Magistral", "[THINK]a[/THINK]b", ["a"], "b"],
  ["that of Kimi", "◁think▷a◁/think▷b", ["a"], "b"],
  ["that of Sky-T1", "<|begin_of_thought|>a<|end_of_thought|>b", ["a"], "b"],
  ["that of Command A", "<|START_THINKING|>a<|END_THINKING|>b", ["a"], "b"],
  ["that of Seed", "<seed:think>a</seed:think>b", ["a"], "b"],
  ["upper case", "<THINK>a</Think>b", ["a"], "b"],
  ["attributes", '<think type="deep" n=3 >a</think>b', ["a"], "b"],
  ["white space around", "\n <think>\n a\n\nb \n</think>\n\n  c \n", ["a\n\nb"], "c \n"],
  ["several blocks", "<think>a</think>\n<thinking>b</thinking>\n\nc", ["a", "b"], "c"],
  ["an empty block", "<think>\n\n</think>\n\nb", [], "b"],
  ["no end", "<think>a\nb", ["a\nb"], ""],
  ["an end that is cut", "<think>a</thi", ["a</thi"], ""],
  ["white space", " \n\n ", [], ""],
  ["no answer", "<think>a</think>\n", ["a"], ""],
  [
    "another tag inside",
    "<think>is <b> < </thinking> a tag?</think>b",
    ["is <b> < </thinking> a tag?"],
    "b",
  ],
  ["an opening inside", "<think>a <think> b</think>c", ["a <think> b"], "c"],
  ["an end without a begin, first", "</think>\n\nb", [], "b"],
  ["an end without a begin", "Let me see.\nYes.\n</think>\n\nb", ["Let me see.\nYes."], "b"],
  ["JSON behind it", '<think>a</think>\n{"a":"<think>"}', ["a"], '{"a":"<think>"}'],
];

/** Texts that stay as they are, byte for byte. */
const KEPT: [string, string][] = [
  ["nothing", ""],
  ["a mention", "Use <think>a</think> for that."],
  ["a mention at the begin of a line", "Like this:\n<think>a</think>\n\nb"],
  ["inline code at the begin", "`<think>` begins a thought."],
  ["code at the begin", "```xml\n<think>a</think>\n```\n"],
  ["an end within a line", "Close it with </think> and go on.\n"],
  ["an end in code", "Write:\n\n```\na\n</think>\n```\n\nThat is all."],
  ["another tag", " <thinker>a</thinker>"],
  ["a longer word", "<think-aloud>a</think-aloud>"],
  ["words behind the name", "<think of x, where x > 3"],
  ["a comparison", "<3 and < 4"],
  ["a tag without an end", "<think"],
  ["an empty element", "<think/>b"],
  ["an answer in XML", "<answer><thought>a</thought></answer>"],
  ["JSON", '{"thought":"<think>a</think>"}'],
  ["brackets", "[THINKING] of you"],
  ["a checklist", "[ ] a\n[x] b"],
];

/** Reads a text in pieces that end at `cuts`. */
function read(pieces: readonly string[]): { thoughts: string[]; answer: string } {
  const reader = new ThoughtReader();
  const thoughts: string[] = [];
  let answer = "";
  const said = [...pieces.flatMap((piece) => reader.push(piece)), ...reader.end()];
  for (const { text, block } of said)
    if (block === undefined) answer += text;
    else thoughts[block] = (thoughts[block] ?? "") + text;
  return { thoughts, answer };
}

describe("thoughts in a text", () => {
  it.each(CASES)("are separated: %s", (_name, text, thoughts, answer) => {
    expect(splitThoughts(text)).toEqual({ thoughts, answer });
  });

  it.each(KEPT)("are none: %s", (_name, text) => {
    expect(splitThoughts(text)).toEqual({ thoughts: [], answer: text });
  });

  it.each([...CASES.map(([, text]) => text), ...KEPT.map(([, text]) => text)])(
    "are the same in pieces of any cut: %j",
    (text) => {
      const whole = splitThoughts(text, { isFinal: true });
      for (let first = 0; first <= text.length; first++)
        for (let second = first; second <= text.length; second++)
          expect(
            read([text.slice(0, first), text.slice(first, second), text.slice(second)]),
          ).toEqual(whole);
      expect(read([...text])).toEqual(whole);
    },
  );

  it("with an end and no begin stay in a text that a reader has", () => {
    const text = "Let me see.\n</think>\n\nb";
    expect(splitThoughts(text, { isFinal: true })).toEqual({ thoughts: [], answer: text });
  });

  it("are passed on while they come in", () => {
    const reader = new ThoughtReader();
    expect(reader.push("<think>one ")).toEqual([{ text: "one", block: 0 }]);
    expect(reader.push("two <")).toEqual([{ text: " two", block: 0 }]);
    expect(reader.push("3</think>")).toEqual([{ text: " <3", block: 0 }]);
    expect(reader.push("\n\nfi")).toEqual([{ text: "fi" }]);
    expect(reader.push("ne")).toEqual([{ text: "ne" }]);
    expect(reader.end()).toEqual([]);
  });
});
