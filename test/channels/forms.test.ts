/** People see on a channel exactly what the model wrote: its words, and the forms that CommonMark gives them. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toDiscord } from "../../plugins/discord/format.ts";
import { render as toIMessage } from "../../plugins/imessage/send.ts";
import { toMattermost } from "../../plugins/mattermost/format.ts";
import { toTeams } from "../../plugins/msteams/format.ts";
import { render as toSignal } from "../../plugins/signal/send.ts";
import { toMarkdown, toMrkdwn } from "../../plugins/slack/format.ts";
import { toHtml } from "../../plugins/telegram/format.ts";
import { toWhatsApp } from "../../plugins/whatsapp/format.ts";
import { splitText } from "../../src/delivery/split.ts";
import { cleanReply } from "../../src/agent/reply/disarm.ts";
import { findLive } from "../agent/markdown-judge.ts";
import { expectProportional } from "../growth.ts";
import { answers, lastingForms } from "./answers.ts";
import {
  differenceOf,
  readDiscord,
  readMrkdwn,
  readRanges,
  readTelegram,
  readWhatsApp,
  showMarkdown,
  SPACED,
  withoutRules,
  type Shown,
  type Ways,
} from "./shown.ts";

interface Room {
  /** Reads the channel's form of a markdown text, as people see it. */
  see(markdown: string): Shown;
  ways: Ways;
}

const ROOMS: Readonly<Record<string, Room>> = {
  telegram: {
    see: (text) => readTelegram(toHtml(text)),
    ways: { tables: "code", cards: true },
  },
  signal: {
    see: (text) => readRanges(toSignal(text)),
    ways: { tables: "code", cards: true, writesLinks: true },
  },
  imessage: {
    see: (text) => readRanges({ text: withoutRules(toIMessage(text)), styles: [] }),
    ways: {
      tables: "code",
      cards: true,
      writesLinks: true,
      tick: "`",
      lacks: ["strong", "em", "del", "code"],
    },
  },
  whatsapp: {
    see: (text) => readWhatsApp(toWhatsApp(text)),
    ways: { tables: "code", cards: true, writesLinks: true, apart: SPACED },
  },
  discord: {
    see: (text) => readDiscord(toDiscord(text)),
    ways: { tables: "code", cards: true },
  },
  "slack in mrkdwn": {
    see: (text) => readMrkdwn(toMrkdwn(text)),
    ways: { tables: "code" },
  },
  // These read markdown: HTML that is left would be obeyed, or vanish. Slack obeys marks behind a zero-width space.
  slack: {
    see: (text) =>
      showMarkdown(toMarkdown(text).replaceAll("\u200B", " "), {
        tables: "native",
        html: "dropped",
      }),
    ways: { tables: "native" },
  },
  // Its clients read what stands between tags, and show the tags.
  mattermost: {
    see: (text) => showMarkdown(toMattermost(text), { tables: "native", html: "read" }),
    ways: { tables: "native" },
  },
  msteams: {
    see: (text) => showMarkdown(toTeams(text), { tables: "native", html: "dropped" }),
    ways: { tables: "code" },
  },
};

const wordsOf = (shown: Shown): string => shown.map((sign) => sign.split(" ")[0]).join("");

/** The lines of CommonMark's discussion of the matter (issue 650 of its specification) and of the package's own tests. */
const BOLD_LINES = [
  "**注意：**请",
  "请先看**“引用”**的部分",
  "**一：**二，**三：**四",
  "**テスト。**テスト",
  "**스크립트(script)**라고",
  "**このアスタリスクは強調記号として認識されず、そのまま表示されます。**この文のせいで。",
  "**该星号不会被识别，而是直接显示。**这是因为它没有被识别为强调符号。",
  "**이 별표는 강조 표시로 인식되지 않고 그대로 표시됩니다(이 괄호 때문에)**이 문장 때문에.",
  "これは**私のやりたかったこと。**だからするの。",
  "カッコに注意**（太字にならない）**文が続く場合に要警戒。",
  "税込**¥10,000**で入手できます。",
  "正解は**④**です。",
  "太郎は**「こんにちわ」**といった",
  '太郎は**"Hello"**といった',
  "**C#**や**F#**は**「.NET」**というプラットフォーム上で動作します。",
  "Go**「初心者」**を対象とした記事です。",
  "**真，**她",
  "真**《她**",
  "私は**⻲田太郎**と申します",
  "**안녕(hello)**하세요.",
];

/** The signs of a text between its pairs of stars. */
const between = (line: string): string =>
  [...line.matchAll(/\*\*(.*?)\*\*/g)]
    .map(([, inner = ""]) => inner.replaceAll(/\s/g, ""))
    .join("");

it.each(Object.entries(ROOMS).filter(([, { ways }]) => !ways.lacks))(
  "%s: bold words of a line are bold for people",
  (id, { see }) => {
    for (const line of BOLD_LINES) {
      // WhatsApp shows a mark beside a Latin letter, so that none is written there.
      const meant = id === "whatsapp" ? line.replace("Go**「初心者」**", "Go「初心者」") : line;
      const shown = see(line);
      const bold = shown
        .filter((sign) => sign.endsWith(" strong"))
        .map((sign) => sign.slice(0, -7));
      expect(bold.join(""), line).toBe(between(meant));
      expect(wordsOf(shown)).toBe(line.replaceAll(/\*\*|\s/g, ""));
    }
  },
);

describe("a table that is too wide for a telephone is a list of cards", () => {
  it("from 41 columns on, of which East Asian letters and pictures fill two", () => {
    const table = (cell: string): string => `| a | b |\n|---|---|\n| ${cell} | c |`;
    // Each: 36 columns, the line between with its spaces, and one letter.
    for (const cell of ["x".repeat(36), "語".repeat(18), "👍".repeat(18)]) {
      expect(toHtml(table(cell)), cell).toMatch(/^<pre>/);
      expect(toHtml(table(`${cell}x`)), cell).toBe(`a: <b>${cell}x</b>\nb: c`);
    }
  });

  it("with a title alone where there is one column, and whatever else is missing", () => {
    const long = "long ".repeat(10).trim();
    expect(toHtml(`| a |\n|---|\n| ${long} |\n| b |`)).toBe(`a: <b>${long}</b>\n\na: <b>b</b>`);
    expect(toHtml(`| ${long} | b |\n|---|---|`)).toBe(`${long}\nb`);
    expect(toDiscord(`| | b |\n|---|---|\n| # ${long} | |\n| | - c |`)).toBe(
      `**\\# ${long}**\n\nb: - c`,
    );
  });
});

/** Texts about markup. People must see them unchanged. */
const VERY_WORDS = [
  "a < b && c > d",
  "<b>x</b> and <i>y</i>",
  "std::vector<int> Map<K,V>",
  '<img src="http://a.example/x">',
  '{"html":"<p>Hello</p>"}',
  "<!-- a comment --> <a href='x'>y</a>",
  "<div>\n  <at>Ann</at> <script>x()</script>\n</div>",
];

it.each(Object.entries(ROOMS))("%s: people see words about markup unchanged", (_id, { see }) => {
  for (const text of VERY_WORDS) expect(wordsOf(see(text))).toBe(text.replaceAll(/\s/g, ""));
  for (const text of ["`&amp; &lt;b&gt; <b>`", "```html\n&amp; &lt;b&gt; <b>\n```"])
    expect(wordsOf(see(text)).replaceAll("`", "")).toBe("&amp;&lt;b&gt;<b>");
});

/** Replies are not escaped before: what renders them does it, for its vendor. */
it.each([
  ["discord", toDiscord],
  ["mattermost", toMattermost],
  ["msteams", toTeams],
])("%s: a message loads nothing from other sites", (_id, render) => {
  const said = [
    "a <b>x</b> <img src=http://x.example/p> std::vector<int>",
    '<div>\n<img src="http://x.example">\n</div>',
    "![a](http://x.example/p) <style>p{background:url(http://x.example)}</style>",
  ];
  expect(findLive(render(cleanReply(said.join("\n\n")).text))).toEqual([]);
});

const SIGNS = fc.string({ unit: fc.constantFrom(..."`*_~|-#\n a@&<>[]()!\\👍"), maxLength: 80 });

it.each<[string, (text: string) => string]>([
  ["telegram", toHtml],
  ["discord", toDiscord],
  ["whatsapp", toWhatsApp],
  ["msteams", toTeams],
  ["mattermost", toMattermost],
  ["slack", toMarkdown],
  ["slack in mrkdwn", toMrkdwn],
  ["imessage", toIMessage],
  ["signal", (text) => toSignal(text).text],
])("%s: any text is rendered, and quickly", async (id, render) => {
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: "binary" }), SIGNS), (text) => {
      expect(render(text).trim() === "").toBe(text.trim() === "");
    }),
    { numRuns: 150 },
  );
  // A text that nests too deep for a parser stays as it is.
  expect(render(`${"> ".repeat(20_000)}x`)).toContain("x");
  if (id !== "whatsapp" && id !== "msteams") return;
  for (const unit of [
    "*a ",
    "_a_",
    "| a ",
    "> ",
    "`a ",
    "[a](b) ",
    "<b>",
    "日本 ",
    "~~",
    "*a",
    "*_",
    "_*a*",
    "日*",
  ])
    await expectProportional((length) => render(unit.repeat(length / unit.length)), 1250, unit);
});

it("mattermost: nothing else changes, and on Slack nobody is mentioned outside of code", () => {
  fc.assert(
    fc.property(SIGNS, (text) => {
      // HTML is no markdown inside, so its marks are escaped.
      if (!/!\[|<[a-z!?/]/i.test(text)) expect(toMattermost(text)).toBe(text);
      // Three tildes open code, as backticks do.
      if (!/`|~~~/.test(text) && !/^(?: {4}|[ >*-]* {4})/m.test(text))
        expect(toMarkdown(text)).not.toMatch(/<[@!#]/);
      expect(toMrkdwn(text)).not.toMatch(/<[@!#]/);
    }),
    { numRuns: 500 },
  );
});

describe.each(Object.entries(ROOMS))("on %s", (_id, { see, ways }) => {
  it("60 answers of markdown, code, HTML, JSON and XML show their words and forms", () => {
    const wrong = fc
      .sample(answers, { numRuns: 60, seed: 34 })
      .map((text) => ({ text, difference: differenceOf(see(text), showMarkdown(text, ways)) }))
      .filter(({ difference }) => difference !== undefined);
    expect(wrong.slice(0, 1).map(({ text, difference }) => `${text}\n\n${difference}`)).toEqual([]);
  });

  it("what is cut shows in its pieces what the whole shows", () => {
    // A title is written behind its link, and code that has no form keeps its ticks: in each piece, so in more places.
    const plain = (shown: Shown): Shown => shown.filter((sign) => !ways.tick || sign !== ways.tick);
    const wrong = fc
      .sample(lastingForms, { numRuns: 25, seed: 35 })
      .map((answer) => {
        const text = answer.replaceAll(/ "[A-Za-z ]*title"/g, "");
        const pieces = splitText(text, 250);
        const found = plain(pieces.flatMap((piece) => see(piece)));
        return { pieces, difference: differenceOf(found, plain(showMarkdown(text, ways))) };
      })
      .filter(({ difference }) => difference !== undefined);
    expect(
      wrong
        .slice(0, 1)
        .map(({ pieces, difference }) => [...pieces, difference].join("\n\n=====\n")),
    ).toEqual([]);
  });
});
