import JSON5 from "json5";
import { expect, it } from "vitest";
import { renderInsertion } from "../../console/src/pages/mappings/editor/insertion.ts";

const TEXT = `{
  // Orders of the shop.
  id: "order", /* ours */
  match: { path: "shop", payload: { type: ['order', "sale"], total: { $gte: 100 } } },
  messageTemplate: 'Order {{id}} of {{total}}',
  name: "a", tags: [1, 2,], none: {}, list: [],
}
`;

const insert = (text: string, path: string, value: unknown): string => {
  const [position, plain] = [text.indexOf("|"), text.replace("|", "")];
  const found = renderInsertion(plain, position, path, value);
  return found ? plain.slice(0, found.at) + found.text + plain.slice(found.at) : plain;
};

it("insertion: a text stays valid wherever the path of a field is inserted", () => {
  for (const value of [240, "a 'b' \"c\"", true, null, { deep: 1 }, "x".repeat(500)])
    for (const path of ["id", "data.total", "data.`it's`", 'items[0]."x"'])
      for (let position = 0; position <= TEXT.length; position++) {
        const found = renderInsertion(TEXT, position, path, value);
        const text = found ? TEXT.slice(0, found.at) + found.text + TEXT.slice(found.at) : TEXT;
        expect(() => JSON5.parse(text), `${position}: ${text}`).not.toThrow();
      }
});

it("insertion: a click writes a condition that holds for the value, or an expression if a value is missing", () => {
  expect(insert("{ payload: {|} }", "data.total", 240)).toBe('{ payload: {"data.total": 240} }');
  expect(insert('{ payload: { type: "a"| } }', "data.total", 240)).toBe(
    '{ payload: { type: "a", "data.total": 240 } }',
  );
  expect(insert('{ payload: { |type: "a" } }', "id", "x")).toBe(
    '{ payload: { id: "x", type: "a" } }',
  );
  expect(insert('{ payload: { type: "a", | } }', "data", { id: 1 })).toBe(
    '{ payload: { type: "a", data: { $exists: true } } }',
  );
  expect(insert("{ messageTemplate: | }", "data.id", 7)).toBe('{ messageTemplate: "{{data.id}}" }');
  expect(insert("{ messageTemplate:|, a: 1 }", "id", 7)).toBe(
    '{ messageTemplate: "{{id}}", a: 1 }',
  );
  expect(insert('{ match: { when: "|" } }', "data.id", 7)).toBe('{ match: { when: "data.id" } }');
  expect(insert('{ messageTemplate: "{{$sum(|)}}" }', "data.id", 7)).toBe(
    '{ messageTemplate: "{{$sum(data.id)}}" }',
  );
});
