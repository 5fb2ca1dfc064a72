import { expect, it } from "vitest";
import { visibleText } from "../../console/src/ui/format.ts";
import { printable } from "../../src/cli/text.ts";

it("shows by its code each character that the command line takes out", () => {
  const all = Array.from({ length: 0x1_0000 }, (_, code) => String.fromCharCode(code)).filter(
    (one) => one !== "\r",
  );
  const taken = all.filter((one) => printable(one) === "");
  expect(taken).toContain("\u061c");
  expect(taken.filter((one) => visibleText(one) === one)).toEqual([]);
});
