import fc from "fast-check";
import JSON5 from "json5";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { editText } from "../../src/config/edit.ts";
import {
  addMapping,
  listWrittenMappings,
  readMappingText,
  replaceMapping,
} from "../../src/operate/edits/mapping-text.ts";
import { documents, type GeneratedDocument } from "./json5-documents.ts";

const RUNS = 500;

// The parser prints a warning for separators in texts, which JSON5 allows.
beforeEach(() => void vi.spyOn(console, "warn").mockImplementation(() => undefined));
afterEach(() => void vi.restoreAllMocks());

/** The one text that was put into `before` to make `after`; undefined if more is different. */
function findInserted(before: string, after: string): string | undefined {
  let start = 0;
  while (start < before.length && before[start] === after[start]) start++;
  let end = 0;
  while (end < before.length - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  return start + end === before.length ? after.slice(start, after.length - end) : undefined;
}

const readMappings = ({ home }: GeneratedDocument, text: string): unknown => {
  const { hooks, mappings } = JSON5.parse<{ hooks?: { mappings: unknown }; mappings?: unknown }>(
    text,
  );
  return home === "config" ? hooks?.mappings : mappings;
};

describe("in any JSON5 document", () => {
  it("replacing a mapping leaves every other byte", () => {
    fc.assert(
      fc.property(documents, fc.nat(2), (document, at) => {
        const { text, home, count, mapping } = document;
        fc.pre(at < count);
        const written = listWrittenMappings(text, home);
        expect(written.map(({ id }) => id)).toEqual(
          Array.from({ length: count }, (_, index) => `m${index}`),
        );
        const after = replaceMapping(text, home, at, readMappingText(mapping, "a.json5"));
        const [old, now] = [written[at], listWrittenMappings(after, home)[at]];
        expect(after.slice(0, now?.start)).toBe(text.slice(0, old?.start));
        expect(after.slice(now?.end)).toBe(text.slice(old?.end));
        expect(readMappings(document, after)).toEqual(
          written.map(({ value }, index) => (index === at ? JSON5.parse(mapping) : value)),
        );
      }),
      { numRuns: RUNS },
    );
  });

  it("adding a mapping puts in the mapping, white space and a comma, and changes no other byte", () => {
    fc.assert(
      fc.property(documents, (document) => {
        const { text, home, count, mapping } = document;
        const after = addMapping(text, home, readMappingText(mapping, "a.json5"));
        const values = listWrittenMappings(text, home).map(({ value }) => value);
        expect(readMappings(document, after)).toEqual([...values, JSON5.parse(mapping)]);
        const { end } = listWrittenMappings(text, home).at(-1) ?? { end: 0 };
        const inserted =
          findInserted(text, after) ??
          findInserted(`${text.slice(0, end)},${text.slice(end)}`, after);
        const added = listWrittenMappings(after, home)[count]?.text as string;
        const at = inserted?.indexOf(added.slice(0, -1)) ?? -1;
        expect(at).toBeGreaterThanOrEqual(0);
        expect(
          (inserted as string).slice(0, at) + (inserted as string).slice(at + added.length),
        ).toMatch(/^[\s,{}[\]]*$/);
      }),
      { numRuns: RUNS },
    );
  });

  it("a change of any member sets what it is to be, and keeps all comments and the members around it", () => {
    const change = fc.record({
      path: fc.array(fc.constantFrom("a", "$b", "new", "e f", "hooks", 0, 1), {
        minLength: 1,
        maxLength: 3,
      }),
      value: fc.oneof(
        fc.constantFrom(undefined, 1, "x", null),
        fc.constant({ deep: [1, { more: "y" }] }),
        fc.constant(["x"]),
      ),
    });
    fc.assert(
      fc.property(documents, change, ({ text }, { path: given, value }) => {
        const path = [given.find((name) => typeof name === "string") ?? "new", ...given.slice(1)];
        const after = editText(text, [{ path, value }]);
        const [was, is] = [
          JSON5.parse<Record<string, unknown>>(text),
          JSON5.parse<Record<string, unknown>>(after),
        ];
        const [name] = path as [string];
        expect({ ...is, [name]: 0 }).toEqual({ ...was, [name]: 0 });
        const found = path.reduce<unknown>(
          (inner, key) => (inner as Record<string | number, unknown> | undefined)?.[key],
          is,
        );
        const isPosition = typeof path.at(-1) === "number";
        if (value === undefined ? !isPosition : path.every((key) => typeof key === "string"))
          expect(found).toEqual(value);
        if (value === undefined && was[name] === undefined) expect(after).toBe(text);
        // Outside of the changed member, the text is the same byte for byte, apart from commas and white space.
        if (was[name] !== undefined) return;
        const strip = (written: string): string => written.replaceAll(/[\s,]/g, "");
        expect(findInserted(strip(text), strip(after))).toBeDefined();
      }),
      { numRuns: RUNS },
    );
  });
});
