import { expect, it } from "vitest";
import { visibleText } from "../../console/src/ui/format.ts";
import { printable } from "../../src/cli/text.ts";

it("hidden text: each character that the command line removes is shown by its code", () => {
  const all = Array.from({ length: 0x1_0000 }, (_, code) => String.fromCharCode(code)).filter(
    (one) => one !== "\r",
  );
  const taken = all.filter((one) => printable(one) === "");
  expect(taken).toContain("\u061c");
  expect(taken.filter((one) => visibleText(one) === one)).toEqual([]);
});

it.each([
  ["a family, a technician and a flag 👩‍👩‍👧‍👦 👩🏽‍💻 🏳️‍🌈", undefined],
  ["a\u200db", "a\\u200db"],
  ["👩\u200dadmin", "👩\\u200dadmin"],
  ["x\u200d👩", "x\\u200d👩"],
  ["👩\u200d\u200d👩", "👩\\u200d\\u200d👩"],
])(
  "hidden text: the joiner in a picture of several stays, and is shown elsewhere: %s",
  (text, shown = text) => {
    expect(visibleText(text)).toBe(shown);
  },
);
