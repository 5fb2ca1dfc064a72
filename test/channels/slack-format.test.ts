import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toMarkdown, toMrkdwn } from "../../plugins/slack/format.ts";

const J = "\u2060";

describe("markdown_text", () => {
  it.each([
    [
      "stays as it is",
      "# A\n\n- **b** [c](https://d.example/e_(f))\n\n| a | b |\n| - | - |\n| 1 | 2 |",
    ],
    ["an address in marks stays", "see <https://a.example/?b=1&c=2> & more"],
    ["code stays", "`<!channel>`\n\n```html\n<b>![x](y)</b>\n```\n\n    <!here> indented"],
  ])("%s", (_name, text) => {
    expect(toMarkdown(text)).toBe(text);
  });

  it.each([
    [
      "calls nobody",
      "hi <!channel> <@U0ROSA> \\<!here> <!subteam^S1>",
      "hi &lt;!channel> &lt;@U0ROSA> &lt;!here> &lt;!subteam^S1>",
    ],
    [
      "calls nobody in a block",
      "<!channel>\n\n> <!here>\n> a\n\n- <@U1>",
      "&lt;!channel>\n\n> &lt;!here>\n> a\n\n- &lt;@U1>",
    ],
    [
      "shows tags",
      "a <b>bold</b> <script>x</script>",
      "a &lt;b>bold&lt;/b> &lt;script>x&lt;/script>",
    ],
    [
      "gives an image as its address",
      "![a *chart*](https://a.example/c.png) 日本語",
      "a chart: https://a.example/c.png 日本語",
    ],
    [
      "gives an image in a link too",
      "[![x](https://a.example/i_1.png)](https://b.example)",
      "[x: https://a.example/i\\_1.png](https://b.example)",
    ],
  ])("%s", (_name, text, expected) => {
    expect(toMarkdown(text)).toBe(expected);
  });
});

describe("mrkdwn", () => {
  it.each([
    ["marks", "**bold** _it_ *it* ~~gone~~ ***both***", "*bold* _it_ _it_ ~gone~ _*both*_"],
    ["headings", "# Title **x**\n\nText", "*Title x*\n\nText"],
    [
      "links with parentheses",
      "[wiki](https://en.example/a_(b)?c=1&d=2)",
      "<https://en.example/a_(b)?c=1&amp;d=2|wiki>",
    ],
    ["links that say their address", "<https://a.example/b>", "<https://a.example/b>"],
    [
      "links with marks of the dialect",
      "[a|b > c](<https://a.example/x|y z>)",
      "<https://a.example/x%7Cy%20z|a|b &gt; c>",
    ],
    [
      "references",
      "[a][1] ![b][1]\n\n[1]: https://a.example/c",
      "<https://a.example/c|a> b: https://a.example/c",
    ],
    [
      "links that would call everybody",
      "[x](!channel) [](@U1) [y](#C1)",
      "x (!channel) @U1 y (#C1)",
    ],
    ["images", "![alt](https://a.example/p.png)", "alt: https://a.example/p.png"],
    [
      "nested lists",
      "- a\n  1. b\n  2. c\n     - d\n- [x] e\n- [ ] f",
      "• a\n    1. b\n    2. c\n        • d\n• ☑ e\n• ☐ f",
    ],
    ["quotes", "> a\n> b\n>\n> > c", "> a\n> b\n> \n> > c"],
    [
      "code with backticks",
      "`` a`b ``\n\n````\n```\nx < y\n````",
      `\`\`\`a\`b\`\`\`\n\n\`\`\`\n\`${J}\`\`\nx &lt; y\n\`\`\``,
    ],
    [
      "tables",
      "| a | long |\n|:-:|-:|\n| **1** | [x](https://b.example) |",
      "```\na | long\n1 | x (https://b.example)\n```",
    ],
    [
      "control signs",
      "1 < 2 && 3 > 2 <b>x</b> <!channel>",
      "1 &lt; 2 &amp;&amp; 3 &gt; 2 &lt;b&gt;x&lt;/b&gt; &lt;!channel&gt;",
    ],
    [
      "signs that would open a mark",
      "\\*not bold\\* a_b*c 2 * 3 \\> x",
      `*${J}not bold* a_b*c 2 * 3 &gt; x`,
    ],
    ["a sign that would open a quote", "\\> x", `${J}&gt; x`],
    ["emoji and CJK", "👩‍👩‍👧‍👦 **日本語** のテキスト 🇩🇪", "👩‍👩‍👧‍👦 *日本語* のテキスト 🇩🇪"],
    ["marks beside letters, which Slack would show", "**注意：**请 a**b**c", "注意：请 abc"],
    ["breaks and rules", "a\\\nb\n\n---\n\nc", "a\nb\n\n———\n\nc"],
    ["marks over lines", "**a\nb**", "*a*\n*b*"],
    ["notes", "a[^1]\n\n[^1]: note", "a[^1]\n\n[^1]: note"],
  ])("%s", (_name, text, expected) => {
    expect(toMrkdwn(text)).toBe(expected);
  });
});

const word = fc.stringMatching(/^[a-zA-Z0-9äß日本]{1,8}$/);
const inline = fc.oneof(
  word,
  word.map((text) => `**${text}**`),
  word.map((text) => `_${text}_`),
  word.map((text) => `\`${text}\``),
  word.map((text) => `[${text}](https://a.example/${encodeURIComponent(text)})`),
  word.map((text) => `![${text}](https://a.example/i)`),
  word.map((text) => `<${text}`),
  word.map((text) => `~~${text}~~`),
);
const line = fc.array(inline, { minLength: 1, maxLength: 6 }).map((parts) => parts.join(" "));
const block = fc.oneof(
  line,
  line.map((text) => `# ${text}`),
  fc
    .array(line, { minLength: 1, maxLength: 3 })
    .map((lines) => lines.map((text) => `- ${text}`).join("\n")),
  line.map((text) => `> ${text}`),
  word.map((text) => `\`\`\`\n${text}\n\`\`\``),
  fc.tuple(word, word).map(([a, b]) => `| ${a} | ${b} |\n| - | - |\n| ${b} | ${a} |`),
);

describe("both", () => {
  it("lose no word and keep the order", () => {
    const words = (text: string): string[] => text.match(/[a-zA-Z0-9äß日本]+/g) ?? [];
    fc.assert(
      fc.property(fc.array(fc.oneof(word, block), { minLength: 1, maxLength: 6 }), (blocks) => {
        const text = blocks.join("\n\n");
        const unescape = (given: string): string =>
          given
            .replaceAll(J, "")
            .replaceAll("&lt;", "<")
            .replaceAll("&gt;", ">")
            .replaceAll("&amp;", "&");
        const addressless = (given: string): string => given.replace(/https:\/\/[\w./%]*/g, "");
        const expected = words(addressless(text)).toSorted();
        expect(words(addressless(unescape(toMarkdown(text)))).toSorted()).toEqual(expected);
        expect(words(addressless(unescape(toMrkdwn(text)))).toSorted()).toEqual(expected);
      }),
      { numRuns: 150 },
    );
  });

  it("end on any text", () => {
    const sign = fc.constantFrom(
      "<",
      ">",
      "!",
      "[",
      "]",
      "(",
      ")",
      "*",
      "_",
      "~",
      "`",
      "\\",
      "|",
      "-",
      "#",
      " ",
      "\n",
      "a",
      "@",
      "&",
      "👍",
    );
    fc.assert(
      fc.property(fc.string({ unit: sign, maxLength: 80 }), (text) => {
        // Outside of code nobody is called. Three tildes open code, as backticks do.
        if (!/`|~~~/.test(text) && !/^(?: {4}|[ >*-]* {4})/m.test(text))
          expect(toMarkdown(text)).not.toMatch(/<[@!#]/);
        expect(toMrkdwn(text)).not.toMatch(/<[@!#]/);
      }),
      { numRuns: 500 },
    );
  });
});
