import { expect, it } from "vitest";
import { definePlugin } from "../../src/plugin/api.ts";
import { parseHttpSample, testPreset } from "../../src/testing/index.ts";

const FILE = `# source: recorded from the shop
# hand-made: no
# mapping: shop.order
# session: hook:shop:7
# text: Order 7
# text: "by x-shop\\nEvent: paid"
POST /hooks/shop HTTP/1.1
content-type: application/json
X-Shop-Event: paid

{"id":7,
"more":"# text: of the body"}
`;
const sample = parseHttpSample("an order", FILE);

it(".http files: one is read with its comments, headers and body", () => {
  expect(sample).toEqual({
    name: "an order",
    source: "recorded from the shop",
    isHandMade: false,
    path: "shop",
    headers: { "content-type": "application/json", "x-shop-event": "paid" },
    body: '{"id":7,\n"more":"# text: of the body"}',
    expect: {
      mapping: "shop.order",
      sessionKey: "hook:shop:7",
      text: ["Order 7", "by x-shop\nEvent: paid"],
    },
  });
  expect(parseHttpSample("an order", FILE.replaceAll("\n", "\r\n")).headers).toEqual(
    sample.headers,
  );
  expect(
    parseHttpSample("an order", FILE.replace(/# session.*\n/, "")).expect.sessionKey,
  ).toBeNull();
  expect(
    parseHttpSample("an order", FILE.replace("mapping: shop.order", "mapping: none")).expect
      .mapping,
  ).toBeNull();
});

it.each([
  ["# source: recorded from the shop\n", "", "a line `# source: …` is missing"],
  ["hand-made: no", "hand-made: partly", "`hand-made` is yes or no, not partly"],
  [
    "POST /hooks/shop HTTP/1.1\n",
    "",
    "the line `POST /hooks/<path> HTTP/1.1` must follow the comments",
  ],
  ["X-Shop-Event: paid", "paid", "the line is not a comment, a request line or a header: paid"],
])(".http files: one with another form is refused: %s", (text, instead, message) => {
  expect(() => parseHttpSample("an order", FILE.replace(text, instead))).toThrow(
    `an order: ${message}`,
  );
});

const preset = {
  id: "shop",
  mappings: [
    {
      id: "shop.order",
      match: { path: "shop", payload: { id: 7 } },
      dedupeKey: "{{id}}",
      sessionKey: "hook:shop:{{id}}",
      // The text has the header: it shows that the suite posts it.
      messageTemplate: "Order {{id}} by x-shop\nEvent: {{headers.`x-shop-event`}}",
    },
  ],
};
testPreset({
  preset,
  samples: [sample],
  plugins: [definePlugin({ id: "shop", presets: [preset] })],
});
