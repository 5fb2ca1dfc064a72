/** Each piece of a long answer shows by itself what the whole shows: the same words, in the same forms. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { splitText } from "../../src/delivery/split.ts";
import { lastingForms, prose } from "../channels/answers.ts";
import { differenceOf, showMarkdown } from "../channels/shown.ts";

const shownInPieces = (text: string, limit: number): string | undefined =>
  differenceOf(
    splitText(text, limit).flatMap((piece) => showMarkdown(piece)),
    showMarkdown(text),
  );

describe("pieces", () => {
  it.each([
    ["answers", 80, prose],
    ["answers", 200, prose],
    ["answers in lasting forms", 100, lastingForms],
    ["answers in lasting forms", 500, lastingForms],
  ])("of 60 %s show what the whole shows, cut at %d", (_kind, limit, kind) => {
    const wrong = fc
      .sample(kind, { numRuns: 60, seed: limit })
      .map((text) => ({ text, difference: shownInPieces(text, limit) }))
      .filter(({ difference }) => difference !== undefined);
    expect(
      wrong
        .slice(0, 1)
        .map(({ text, difference }) =>
          [text, ...splitText(text, limit), difference].join("\n\n=====\n"),
        ),
    ).toEqual([]);
  });
});
