import { describe, expect, it } from "vitest";
import JSON5 from "json5";
import {
  addMapping,
  listWrittenMappings,
  readMappingText,
  replaceMapping,
} from "../../src/operate/edits/mapping-text.ts";

const NEW = `{ id: "c", match: { path: "z" } }`;
const LONG = `{\n    id: "c", // its name\n    match: {\n      path: "z",\n    },\n  }`;

const FILES: [string, string][] = [
  ["one line", `{ hooks: { mappings: [{ id: "a" }, { id: "b" }] } }`],
  [
    "trailing comma",
    `{\n  hooks: {\n    mappings: [\n      { id: "a" },\n      { id: "b" },\n    ],\n  },\n}\n`,
  ],
  [
    "no trailing comma, comments",
    `{\n  hooks: { mappings: [\n    { id: "a" }, // first\n    { id: "b" /* in, it */ } // last, of all\n    // done,\n  ] }\n}`,
  ],
  [
    "CRLF and a BOM",
    `\ufeff{\r\n\thooks: {\r\n\t\tmappings: [\r\n\t\t\t{ id: 'a', },\r\n\t\t\t{\r\n\t\t\t\tid: 'b',\r\n\t\t\t\t// why\r\n\t\t\t},\r\n\t\t],\r\n\t},\r\n}\r\n`,
  ],
  [
    "JSON",
    `{\n\t"hooks": {\n\t\t"mappings": [\n\t\t\t{ "id": "a" },\n\t\t\t{ "id": "b" }\n\t\t]\n\t}\n}\n`,
  ],
  [
    "a text over two lines",
    `{ hooks: { token: 'a\\\n   b', mappings: [\n { id: 'a', name: 'x\\\n   y' },\n { id: 'b' } ] } }`,
  ],
];

describe.each(FILES)("%s", (_name, text) => {
  it.each([NEW, LONG])("replaces one mapping, and leaves every other byte", (mapping) => {
    const [first, second] = listWrittenMappings(text, "config");
    const after = replaceMapping(text, "config", 1, mapping);
    expect(after.startsWith(text.slice(0, second?.start))).toBe(true);
    expect(after.endsWith(text.slice(second?.end))).toBe(true);
    expect(listWrittenMappings(after, "config").map(({ id }) => id)).toEqual(["a", "c"]);
    expect(listWrittenMappings(after, "config")[0]).toEqual(first);
    expect(/(?<!\r)\n/.test(after)).toBe(!text.includes("\r\n") && after.includes("\n"));
  });

  it.each([NEW, LONG])("adds one behind the last, and leaves the lines before it", (mapping) => {
    const after = addMapping(text, "config", mapping);
    expect(listWrittenMappings(after, "config").map(({ id }) => id)).toEqual(["a", "b", "c"]);
    // Without the new mapping and its comma, the text is unchanged.
    const { start, end } = listWrittenMappings(after, "config")[2] as {
      start: number;
      end: number;
    };
    const rest = (after.slice(0, start) + after.slice(end)).replaceAll(/[\s,]/g, "");
    expect(rest).toBe(text.replaceAll(/[\s,]/g, ""));
    expect(/(?<!\r)\n/.test(after)).toBe(!text.includes("\r\n"));
  });
});

it.each([
  "{}",
  "{ hooks: {} }",
  "{ hooks: { mappings: [] } }",
  "{\n  // hooks\n  hooks: {\n    mappings: [\n      // none yet\n    ],\n  },\n}\n",
  "{ hooks: { mappings: [ /* none */ ] } }",
  "{\r\n\tlog: {},\r\n}\r\n",
])("mapping text: the first mapping is added to %j", (text) => {
  const after = addMapping(text, "config", LONG);
  expect(JSON5.parse<{ hooks: { mappings: unknown[] } }>(after).hooks.mappings).toEqual([
    { id: "c", match: { path: "z" } },
  ]);
  for (const comment of text.match(/\/\/.*|\/\*.*?\*\//g) ?? []) expect(after).toContain(comment);
});

it.each(["[]", "{ id: ", "{} {}", ""])("mapping text: the mapping %j is refused", (mapping) =>
  expect(() => readMappingText(mapping, "a.json5")).toThrow(/JSON5/),
);

it("mapping text: a JSON file stays JSON, and only the mapping of a text is taken", () => {
  expect(JSON.parse(readMappingText("{ id: 'a', }", "a.json"))).toEqual({ id: "a" });
  expect(readMappingText("// x\n{ id: 'a', } // y", "a.json5")).toBe("{ id: 'a', }");
});
