import { describe, expect, it } from "vitest";
import { cutMeasured } from "../../src/delivery/split.ts";

describe("cutMeasured", () => {
  const escaped = (text: string): number => text.replaceAll("&", "&amp;").length;

  it("cuts until each piece fits as the channel counts", () => {
    const text = "& & & & words ".repeat(60);
    const pieces = [...cutMeasured(text, 100, escaped)];
    expect(pieces.every((piece) => escaped(piece) <= 100)).toBe(true);
    expect(pieces.join(" ").replace(/\s+/g, " ")).toBe(text.trim());
  });

  it("leaves whole what fits, and ends where a single word never can", () => {
    expect([...cutMeasured("a & b", 100, escaped)]).toEqual(["a & b"]);
    const pieces = [...cutMeasured("x".repeat(200), 50, () => 1000)];
    expect(pieces.join("")).toBe("x".repeat(200));
  });

  it("cuts no piece before it is asked for", () => {
    let counted = 0;
    const [first] = cutMeasured("words ".repeat(1_000), 100, ({ length }) => ++counted && length);
    expect([first?.length, counted]).toEqual([95, 1]);
  });

  it("counts by itself where the channel cannot", () => {
    const text = "some words ".repeat(30).trim();
    const broken = (): number => {
      throw new RangeError("too deep");
    };
    expect([...cutMeasured(text, 100, broken)]).toEqual([...cutMeasured(text, 100)]);
  });
});
