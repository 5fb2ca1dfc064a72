/** What arrives at the vendors' servers when a model answers in Chinese, with a wide table, with HTML, and at length. */
import { expect, it } from "vitest";
import { ask, openWorld } from "./contents.ts";
import { VENDORS, type Vendor } from "./vendors.ts";

/** How many words need several messages there. */
const COUNTS: Readonly<Record<string, number>> = { slack: 2000, mattermost: 2500, msteams: 4000 };
const answerOf = (count: number): string => `**注意：**请 std::vector<int> a < b

| Plan | What it has | Price |
|---|---|--:|
| Basic | everything that a small harbour needs | 10 |

Bold: **${Array.from({ length: count }, (_, index) => `word${index}`).join(" ")}**`;

/** What the vendor gets for the bold words, for the HTML, and for a row of the table. */
const FORMS: Readonly<Record<string, [bold: string, html: string, row: string]>> = {
  telegram: [
    "<b>注意：</b>请",
    "std::vector&lt;int&gt; a &lt; b",
    "Plan: <b>Basic</b>\nWhat it has: everything that a small harbour needs\nPrice: 10",
  ],
  discord: [
    "**注意：**请",
    "std::vector<int> a < b",
    "Plan: **Basic**\nWhat it has: everything that a small harbour needs\nPrice: 10",
  ],
  whatsapp: [
    "*注意：*请",
    "std::vector<int> a < b",
    "Plan: *Basic*\nWhat it has: everything that a small harbour needs\nPrice: 10",
  ],
  signal: [
    "注意：请",
    "std::vector<int> a < b",
    "Plan: Basic\nWhat it has: everything that a small harbour needs\nPrice: 10",
  ],
  imessage: [
    "注意：请",
    "std::vector<int> a < b",
    "Plan: Basic\nWhat it has: everything that a small harbour needs\nPrice: 10",
  ],
  slack: ["**注意：**请", "std::vector&lt;int> a &lt; b", "| Basic | everything"],
  mattermost: ["**注意：**请", "a < b", "| Basic | everything"],
  msteams: ["**注意：**请", "std::vector&lt;int> a &lt; b", "Basic  everything"],
};

/** The marks around what is bold in a message; Signal's stand beside the text, and iMessage has none. */
const BOLD: Readonly<Record<string, RegExp>> = {
  telegram: /<b>word\d+[^<]*<\/b>$/,
  whatsapp: /\*word\d+[^*]*\*$/,
  signal: /^[^*]*$/,
  imessage: /^[^*]*$/,
};

it.each(VENDORS.map((vendor): [string, Vendor] => [vendor.id, vendor]))(
  "%s: an answer arrives in its forms, in every message of it",
  async (id, vendor) => {
    const opened = await openWorld(vendor);
    const count = COUNTS[id] ?? 1200;
    opened.provider.answer = () => answerOf(count);
    const { far, world } = opened;
    await ask(opened, far.speak("What is there?"));
    const words = (): number =>
      far.arrived().reduce((sum, { text }) => sum + (text.match(/word\d+/g) ?? []).length, 0);
    await world.until(async () => words() === count);
    const texts = far.arrived().map(({ text }) => text);
    for (const form of FORMS[id] ?? []) expect(texts.join("\n\n")).toContain(form);
    expect(texts.length).toBeGreaterThan(1);
    for (const text of texts.filter((one) => /word\d\s*/.test(one)))
      expect(text).toMatch(BOLD[id] ?? /word\d+\*\*$/);
  },
);
