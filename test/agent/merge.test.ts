import { expect, it } from "vitest";
import { mergeText } from "../../src/agent/speaker.ts";

type Parts = Parameters<typeof mergeText>[0];
type Part = Parts extends ReadableStream<infer P> ? P : never;

const word = (delta: string, id = "1"): Part => ({ type: "text-delta", id, delta });
const turn = (): Promise<void> => new Promise((done) => setTimeout(done, 5));

/** Gives each group at one moment, and the groups one after the other. */
function sourceOf(
  groups: readonly Part[][],
  end: (controller: ReadableStreamDefaultController<Part>) => void,
): Parts {
  return new ReadableStream<Part>({
    async start(controller) {
      for (const group of groups) {
        for (const part of group) controller.enqueue(part);
        await turn();
      }
      end(controller);
    },
  });
}

async function read(source: Parts): Promise<unknown[]> {
  const seen: unknown[] = [];
  try {
    for await (const part of mergeText(source))
      seen.push(part.type === "text-delta" ? part.delta : part.type);
  } catch (error) {
    seen.push(error);
  }
  return seen;
}

it("merged text: pieces that are there together become one, and pieces that come apart stay apart", async () => {
  const finish: Part = { type: "text-end", id: "1" };
  const groups = [
    [word("a"), word("b"), word("c")],
    [word("d")],
    [word("e"), word("f", "2"), word("g", "2"), finish, word("h")],
  ];
  expect(await read(sourceOf(groups, (controller) => controller.close()))).toEqual([
    "abc",
    "d",
    "e",
    "fg",
    "text-end",
    "h",
  ]);
});

it("merged text: a failure comes after the text before it", async () => {
  const broken = new Error("gone");
  expect(
    await read(sourceOf([[word("a"), word("b")]], (controller) => controller.error(broken))),
  ).toEqual(["ab", broken]);
});

it("merged text: the source ends when its reader goes", async () => {
  let gone: unknown;
  const source: Parts = new ReadableStream<Part>({
    pull: (controller) => controller.enqueue(word("a")),
    cancel: (reason) => void (gone = reason),
  });
  const reader = mergeText(source).getReader();
  await reader.cancel("enough");
  expect(gone).toBe("enough");
});
