/** The output of each channel for markdown, in the parts that only its dialect has. `forms.test.ts` reads the output back. */
import { expect, it } from "vitest";
import { toDiscord } from "../../plugins/discord/format.ts";
import { render as toIMessage } from "../../plugins/imessage/send.ts";
import { toMattermost } from "../../plugins/mattermost/format.ts";
import { toTeams } from "../../plugins/msteams/format.ts";
import { render as toSignal } from "../../plugins/signal/send.ts";
import { toMarkdown, toMrkdwn } from "../../plugins/slack/format.ts";
import { toHtml, toPlainText } from "../../plugins/telegram/format.ts";
import { toWhatsApp } from "../../plugins/whatsapp/format.ts";
import { htmlText } from "../../src/channel-kit/rewrite.ts";
import { parseHtml } from "./telegram-server.ts";

/** A source, and what is written; the source itself if nothing else is given. */
type Case = [source: string, written?: string];
/** Invisible signs, which keep a sign from being a mark. */
const [Z, J] = ["\u200B", "\u2060"];

const TELEGRAM: Case[] = [
  [
    "**bold** _italic_ ~~gone~~ `code` a <b>x</b> & 1 < 2",
    "<b>bold</b> <i>italic</i> <s>gone</s> <code>code</code> a &lt;b&gt;x&lt;/b&gt; &amp; 1 &lt; 2",
  ],
  [
    "# One\n\n###### Six\n\n<div>\nx\n</div>",
    "<b>One</b>\n\n<b>Six</b>\n\n&lt;div&gt;\nx\n&lt;/div&gt;",
  ],
  ["- a\n  - b\n    1. c\n    2. d\n- [x] e", "• a\n  • b\n    1. c\n    2. d\n• ☑ e"],
  ["9. a\n10. b\n    - c", "9. a\n10. b\n    • c"],
  [
    "- run\n\n  ```sh\n  a\n    b\n  ```",
    '• run\n\n<pre><code class="language-sh">a\n  b</code></pre>',
  ],
  ["````\n```\n<b>\n````\n\n`` a`b ``", "<pre>```\n&lt;b&gt;</pre>\n\n<code>a`b</code>"],
  [
    "[a](https://x.example/A_(b)?c=1&d=2) see https://x.example/a_b_c",
    '<a href="https://x.example/A_(b)?c=1&amp;d=2">a</a> see https://x.example/a_b_c',
  ],
  [
    '[a](<https://x.example/"q"> "the title")',
    '<a href="https://x.example/&quot;q&quot;">a</a> (the title)',
  ],
  ["[a](./file.md) [b](javascript:x)", "a (./file.md) b (javascript:x)"],
  [
    "[a](http://grafana:3000/d/1.2) [b](tel:+15551234567)",
    "a (http://grafana:3000/d/1.2) b (tel:+15551234567)",
  ],
  ["[`a_b`](https://x.example)", '<a href="https://x.example">a_b</a>'],
  ["[a][r]\n\n[r]: https://x.example", '<a href="https://x.example">a</a>'],
  ["![a chart](https://x.example/c.png)", "a chart https://x.example/c.png"],
  ["见 https://x.example/?a=1&b=2，谢谢", "见 https://x.example/?a=1&amp;b=2 ，谢谢"],
  ["> a\n>\n> > b", "<blockquote>a\n\n&gt; b</blockquote>"],
  [
    "| n | <x> |\n|--:|:-:|\n| 1 | 日本 |\n| 22 | [l](https://x.example) |",
    "<pre> n │          &lt;x&gt;\n───┼──────────────────────\n 1 │         日本\n22 │ l (https://x.example)</pre>",
  ],
];

const DISCORD: Case[] = [
  [
    "**bold** _italic_ __also bold__ ~~gone~~ `code`",
    "**bold** *italic* **also bold** ~~gone~~ `code`",
  ],
  [
    "a_b_c \\_x\\_ \\_\\_init\\_\\_ 2*3*4 ||x|| ~~~y \\o/",
    "a_b_c \\_x\\_ \\_\\_init\\_\\_ 2\\*3\\*4 \\|\\|x\\|\\| \\~\\~\\~y \\\\o/",
  ],
  [
    "<@600000000000000001> <#1> <:a:1> <t:1> &lt;@&1>",
    "\\<@600000000000000001> \\<#1> \\<:a:1> \\<t:1> \\<@&1>",
  ],
  ["a <b>x</b> & 1 < 2 &amp; &copy;", "a <b>x\\</b> & 1 < 2 & ©"],
  ["# One\n\n### Three\n\n#### Four", "# One\n\n### Three\n\n**Four**"],
  ["\\# a\n\\- b\n1\\. c\n\\> d"],
  ["*\\# a* ~~b\\~~~ (x.yhttps://x.example/a_)", `*\\# a* ~~b\\~${Z}~~ (x.yhttps://x.example/a_)`],
  ["* a\n  * b\n    1. c\n* [ ] open", "- a\n  - b\n    1. c\n- ☐ open"],
  ["- run\n\n  ```sh\n  a\n    b\n  ```", "- run\n\n```sh\na\n  b\n```"],
  ["    a_b", "```\na_b\n```"],
  ["````md\n```js\nx\n```\n````", `\`\`\`md\n\`${Z}\`${Z}\`js\nx\n\`${Z}\`${Z}\`\n\`\`\``],
  ["[a](https://x.example/A_(b)?c=1)", "[a](https://x.example/A_%28b%29?c=1)"],
  ["[https://a.example](https://b.example)", "https://a.example (https://b.example)"],
  ["[a](./f.md) [b](javascript:x)", "a (./f.md) b (javascript:x)"],
  [
    "\\[a](https://x.example) <https://x.example/d_e>",
    "\\[a](https://x.example) https://x.example/d_e",
  ],
  ["![a chart](https://x.example/c_d_e.png)", "a chart https://x.example/c_d_e.png"],
  // Discord shows escapes in the text of a link, and takes what stands behind an address for a part of it.
  ["[\\_\\_init\\_\\_](https://x.example)", "\\_\\_init\\_\\_ (https://x.example)"],
  ["https://x.example/* (https://x.example/a_) [a](https://x.example)\\*b"],
  [
    "见 <https://x.example/d>（详）https://x.example/e。**a**![图](https://x.example/f)请看",
    "见 https://x.example/d （详）https://x.example/e 。**a**图 https://x.example/f 请看",
  ],
  ["> a\r\n> b\r\n\r\nc", "> a\n> b\n\nc"],
  ["> a\n>\n> > b", "> a\n> \n> » b"],
  [
    "| n | x |\n|--:|:-:|\n| 1 | 日本 |\n| 22 | **[l](https://x.example)** |",
    "```\n n │           x\n───┼──────────────────────\n 1 │         日本\n22 │ l (https://x.example)\n```",
  ],
];

const MATTERMOST: Case[] = [
  ["# A\n\n- a\n  1. b\n     - c\n\n| a | b |\n| - | - |\n| 1 | <2> & x |"],
  ["[wiki](https://en.example/a_(b)) <https://a.example> 日本語 `` a`b `` user@all.example @rosa"],
  ["```\n![x](y) @all\n```\n\n`@channel` `![x](y)`"],
  ["![a *chart*](https://a.example/c.png)", "a chart: https://a.example/c.png"],
  ["a ![](https://a.example/c.png) b", "a https://a.example/c.png b"],
  ["![a](<https://a.example/c d.png>)", "a: <https://a.example/c d.png>"],
  ["![b][1]\n\n[1]: https://a.example/c", "b: https://a.example/c\n\n[1]: https://a.example/c"],
  ["[![x](https://a.example/i)](https://b.example)", "[x: https://a.example/i](https://b.example)"],
  ["hi @all, @Channel and **@here**", `hi @${J}all, @${J}Channel and **@${J}here**`],
  ["> @all\n> @here", `> @${J}all\n> @${J}here`],
  // The server takes `_` off a word, and reads references, before it looks for mentions.
  ["@all_ _@here x_@channel", `@${J}all_ _@${J}here x_@${J}channel`],
  [
    "![@all](https://a.example/@here) ![](@channel) ![&amp;#64;all](/@all)",
    `@${J}all: https://a.example/@here @${J}channel &${J}#64;all: /@${J}all`,
  ],
  ["&#64;all @&#97;ll a &amp; b", `@${J}all @${J}all a & b`],
  ["a&#98;@all &#64;all", `ab@all @${J}all`],
  ["[see https://a.example/b_c] <d> [x@a.example] @rosa"],
  ["&commat;here \\*\\_ &lt;b&gt; 1 &amp;lt; 2", `@${J}here \\*\\_ <b> 1 &${J}lt; 2`],
];

const TEAMS: Case[] = [
  ["# Title\n\n1. **a** _b_ ~~c~~\n   - `x`\n     - [y](https://a.example/b_(c))\n\n> 1 \\* 2"],
  ["````md\n```\n| a |\n|---|\n<b> ![x](y)\n```\n````\n\n`` a`b <i> ``"],
  [
    "See ![a *b* \\_c](https://a.example/x.png) and ![](https://a.example/y.png)",
    "See a b \\_c https://a.example/x.png and https://a.example/y.png",
  ],
  [
    "![alt][pic]\n\n[pic]: https://a.example/x.png",
    "alt https://a.example/x.png\n\n[pic]: https://a.example/x.png",
  ],
  ['a <b class="x_y">b</b> c<!-- *d* -->', 'a &lt;b class="x_y">b&lt;/b> c&lt;!-- \\*d\\* -->'],
  ["<https://a.example/?a=1&b=2> <ada@example.com>", "https://a.example/?a=1&b=2 ada@example.com"],
  ["**[see https://a.example/b_c]** [x@a.example] _[www.a.example_"],
  ["\\\\<b\\\\> \\<c", "\\\\&lt;b\\\\> &lt;c"],
  [
    "| Name | 数 |\n|:--|--:|\n| **日本語** | 1 |\n| `a\\|b` [c](https://a.example) | 👍 |",
    "```\nName                       数\n-------------------------  --\n日本語                     1\na|b c (https://a.example)  👍\n```",
  ],
  [
    "- x\n\n  | a |\n  |---|\n  | b |\n\n> | c |\n> |---|\n> | d |",
    "- x\n\n  ```\n  a\n  -\n  b\n  ```\n\n> ```\n> c\n> -\n> d\n> ```",
  ],
  ["| a |\n|---|\n| ``` ` ``` x ```` ``` ```` |", "````\na\n-------\n` x ```\n````"],
];

const SLACK: Case[] = [
  ["# A\n\n- **b** [c](https://d.example/e_(f))\n\n| a | b |\n| - | - |\n| 1 | 2 |"],
  ["see <https://a.example/?b=1&c=2> & more"],
  ["`<!channel>`\n\n```html\n<b>![x](y)</b>\n```\n\n    <!here> indented"],
  [
    "hi <!channel> <@U0ROSA> \\<!here> <!subteam^S1>",
    "hi &lt;!channel> &lt;@U0ROSA> &lt;!here> &lt;!subteam^S1>",
  ],
  ["<!channel>\n\n> <!here>\n> a\n\n- <@U1>", "&lt;!channel>\n\n> &lt;!here>\n> a\n\n- &lt;@U1>"],
  [
    '[a](<!here>) [b](https://b.example "<!here>")\n\n[c]: <!here>',
    '\\[a\\](&lt;!here>) \\[b\\](https://b.example "&lt;!here>")\n\n\\[c\\]: &lt;!here>',
  ],
  ["[a](<https://a.example/b c>) [<b>](#d)", "[a](<https://a.example/b c>) [&lt;b>](#d)"],
  ["a <b>bold</b> <script>x</script>", "a &lt;b>bold&lt;/b> &lt;script>x&lt;/script>"],
  ["[see https://a.example] \\\\<b\\\\> \\<c", "[see https://a.example] \\\\&lt;b\\\\> &lt;c"],
  ["![a *chart*](https://a.example/c.png) 日本語", "a chart: https://a.example/c.png 日本語"],
  [
    "[![x](https://a.example/i_1.png)](https://b.example)",
    "[x: https://a.example/i\\_1.png](https://b.example)",
  ],
  ["**重要**。中`码`文 **a** 🎉", `**重要**${Z}。中${Z}\`码\`${Z}文 **a** 🎉`],
  ["「_斜_」，__粗__ ~~删~~后 (**c**)", `「${Z}*斜*${Z}」，${Z}**粗** ~~删~~${Z}后 (**c**)`],
  ["```\n中**x**中\n```\n\n> **甲_乙_**：丙", `\`\`\`\n中**x**中\n\`\`\`\n\n> **甲_乙_**${Z}：丙`],
];

const MRKDWN: Case[] = [
  ["**bold** _it_ *it* ~~gone~~ ***both***", "*bold* _it_ _it_ ~gone~ _*both*_"],
  ["# Title **x**\n\nText\n\n---\n\n**a\nb**", "*Title x*\n\nText\n\n———\n\n*a*\n*b*"],
  [
    "[wiki](https://en.example/a_(b)?c=1&d=2) <https://a.example/b>",
    "<https://en.example/a_(b)?c=1&amp;d=2|wiki> <https://a.example/b>",
  ],
  ["[a|b > c](<https://a.example/x|y z>)", "<https://a.example/x%7Cy%20z|a|b &gt; c>"],
  ["[a][1] ![b][1]\n\n[1]: https://a.example/c", "<https://a.example/c|a> b: https://a.example/c"],
  ["[x](!channel) [](@U1) [y](#C1) [z](./z.md)", "x (!channel) @U1 y (#C1) z (./z.md)"],
  [
    "- a\n  1. b\n  2. c\n     - d\n- [x] e\n- [ ] f",
    "• a\n    1. b\n    2. c\n        • d\n• ☑ e\n• ☐ f",
  ],
  ["> a\n> b\n>\n> > c", "> a\n> b\n> \n> > c"],
  [
    "`` a`b ``\n\n````\n```\nx < y\n````",
    `\`\`\`a\`b\`\`\`\n\n\`\`\`\n\`${J}\`\`\nx &lt; y\n\`\`\``,
  ],
  ["`` `x` `` [see https://a.example/_b]", `\`\`\`${J}\`x\`${J}\`\`\` [see https://a.example/_b]`],
  ["见 https://a.example/b，谢谢", "见 <https://a.example/b> ，谢谢"],
  [
    "| a | long |\n|:-:|-:|\n| **1** | [x](https://b.example) |",
    "```\na | long\n1 | x (https://b.example)\n```",
  ],
  [
    "1 < 2 && 3 > 2 <b>x</b> <!channel>",
    "1 &lt; 2 &amp;&amp; 3 &gt; 2 &lt;b&gt;x&lt;/b&gt; &lt;!channel&gt;",
  ],
  ["\\*not bold\\* a_b*c 2 * 3 \\> x", `*${J}not bold* a_b*c 2 * 3 &gt; x`],
  ["\\> x", `${J}&gt; x`],
  ["**注意：**请 a**b**c", `*注意：*${Z}请 a${Z}*b*${Z}c`],
  ["**重要**。中`码`文「_斜_」", `*重要*${Z}。中${Z}\`码\`${Z}文「${Z}_斜_${Z}」`],
  ["e\u0301**b** 𝐀~~b~~ **b**𝐀 (**c**)", `e\u0301${Z}*b* 𝐀${Z}~b~ *b*${Z}𝐀 (*c*)`],
  ["a[^1]\n\n[^1]: note"],
];

const WHATSAPP: Case[] = [
  ["**a** *b* ~~c~~ ***d*** __e__ `f`", "*a* _b_ ~c~ _*d*_ *e* `f`"],
  ["# A **b** c\n\n**a __b__ c**\n\n**a\nb**", "*A b c*\n\n*a b c*\n\n*a*\n*b*"],
  ["a**b**c и**м**я", "abc имя"],
  ["e\u0301**b** 𝐀**b** ที่**สำคัญ** **b**𝐀", "e\u0301b 𝐀b ที่สำคัญ b𝐀"],
  [
    "日**本**語 **注意：**请**“引用”**的 ~~删除。~~后 \\*x\\*的",
    `日*本*語 *注意：*请*“引用”*的 ~删除。~后 *${Z}x*的`,
  ],
  [
    "[a](https://a.example/b_(c)) <https://b.example> www.d.example [f][g]\n\n[g]: https://g.example",
    "a (https://a.example/b_(c)) https://b.example www.d.example f (https://g.example)",
  ],
  ["https://a.example/_b_/c www.a.example/_b_ [see https://a.example/_b_c_]"],
  ["看[https://a.example](https://a.example)了解", "看https://a.example 了解"],
  [
    "![a](https://a.example/x.png) [![b](https://a.example/z.png)](https://c.example)",
    "a (https://a.example/x.png) b (https://a.example/z.png) (https://c.example)",
  ],
  ["1. a\n2. b\n   - c\n     - [x] d\n   - e\n\n     f"],
  ["> a **b**\n>\n> > c", "> a *b*\n>\n> > c"],
  [
    "`` a`b `` and ````` ```` ```` `````\n\n````\n```\nx\n```\n````",
    `\`\`\`a\`b\`\`\` and \`\`\`${Z}\`\`${Z}\`\` \`\`${Z}\`\`${Z}\`\`\`\n\n\`\`\`\n\`\`${Z}\`\nx\n\`\`${Z}\`\n\`\`\``,
  ],
  [
    "| Name | 数 |\n|:--|--:|\n| **日本語** | 1 |\n| [c](https://a.example) | 👍 |",
    "```\nName                   数\n---------------------  --\n日本語                 1\nc (https://a.example)  👍\n```",
  ],
  [
    "\\*a\\* \\_b\\_ \\~c\\~ \\`d\\` 2 * 3 * 4 snake_case_name",
    `*${Z}a* _${Z}b_ ~${Z}c~ \`${Z}d\` 2 * 3 * 4 snake_case_name`,
  ],
  ["1 < 2 && 3 > 2\n\n\\> x &lt;b&gt; &amp; #5 100%", `1 < 2 && 3 > 2\n\n${Z}> x <b> & #5 100%`],
  ["a <b>b</b>  \nc\n\n---\n\n<div>\nx\n</div>", "a <b>b</b>\nc\n\n---\n\n<div>\nx\n</div>"],
  ["a[^1]\n\n[^1]: b", "a[1]\n\n[1]: b"],
  ["&#32;"],
];

/** Text alone. What no channel writes in a way of its own, as lists and references, stands here. */
const IMESSAGE: Case[] = [
  ["a **bold _both_ bold** ~~c~~ 1 < 2 & *", "a bold both bold c 1 < 2 & *"],
  ["# Head\n\nuse `a*b*`", "Head\n\nuse `a*b*`"],
  ["```ts\nif (a) {\n  b();\n}\n```", "if (a) {\n  b();\n}"],
  [
    "[t](https://a.example/b_(c)?d=1) <https://a.example/x> <ada@a.example>",
    "t (https://a.example/b_(c)?d=1) https://a.example/x ada@a.example",
  ],
  ["[**t**][r]\n\n[r]: https://a.example 'T'", 't (https://a.example "T")'],
  ["[t][r]\n\n[other]: https://a.example"],
  ["![a chart](https://a.example/c.png)", "a chart (https://a.example/c.png)"],
  ["![](https://a.example/c.png)", "https://a.example/c.png"],
  ["- a\n- b\n  - c\n\n    d", "• a\n• b\n  • c\n\n    d"],
  ["- ```\n  x\n    y\n  ```\n- z", "• x\n    y\n• z"],
  ["3. a\n4. b"],
  ["- [x] done\n- [ ] open", "• [x] done\n• [ ] open"],
  ["> quoted\n> **x**\n>\n> > deep", "> quoted\n> x\n>\n> > deep"],
  ["> > a\n> > b"],
  ["- > a\n  > b", "• > a\n  > b"],
  ["a <b>x</b> &amp; y  \nz", "a <b>x</b> & y\nz"],
  ["note[^1]\n\n[^1]: the note", "note[^1]\n\n[^1] the note"],
  [
    "| Name | n |\n|:--|--:|\n| 日本 | 7 |\n| **b** | 100 |",
    "Name |   n\n-----+----\n日本 |   7\nb    | 100",
  ],
  ["a\n\n---\n\nb", "a\n\n———\n\nb"],
  ["#"],
];

it.each<[string, (text: string) => string, Case[]]>([
  ["telegram", toHtml, TELEGRAM],
  ["discord", toDiscord, DISCORD],
  ["mattermost", toMattermost, MATTERMOST],
  ["msteams", toTeams, TEAMS],
  ["slack", toMarkdown, SLACK],
  ["slack in mrkdwn", toMrkdwn, MRKDWN],
  ["whatsapp", toWhatsApp, WHATSAPP],
  ["imessage", toIMessage, IMESSAGE],
])("the dialect of %s", (_id, render, cases) => {
  const written = cases.map(([source]) => [source, render(source)]);
  expect(written).toEqual(cases.map(([source, expected = source]) => [source, expected]));
});

it.each<[string, (text: string) => string, string]>([
  ["telegram", toHtml, "2*3*4 and 2**10**2, 3*4 + 5*6: <i>5</i>"],
  ["discord", toDiscord, "2\\*3\\*4 and 2\\*\\*10\\*\\*2, 3\\*4 + 5\\*6: *5*"],
  ["mattermost", toMattermost, "2\\*3\\*4 and 2\\*\\*10\\*\\*2, 3\\*4 + 5\\*6: *5*"],
  ["msteams", toTeams, "2\\*3\\*4 and 2\\*\\*10\\*\\*2, 3\\*4 + 5\\*6: *5*"],
  ["slack", toMarkdown, "2\\*3\\*4 and 2\\*\\*10\\*\\*2, 3\\*4 + 5\\*6: *5*"],
  ["slack in mrkdwn", toMrkdwn, "2*3*4 and 2**10**2, 3*4 + 5*6: _5_"],
  ["whatsapp", toWhatsApp, "2*3*4 and 2**10**2, 3*4 + 5*6: _5_"],
  ["imessage", toIMessage, "2*3*4 and 2**10**2, 3*4 + 5*6: 5"],
])("products keep their stars on %s, and code stays", (_id, render, written) => {
  const shown = render("2*3*4 and 2**10**2, 3*4 + 5*6: *5*");
  expect(shown.replaceAll(/[\u200b\u2060]/g, "")).toBe(written);
  expect(render("`2*3*4`")).toContain("2*3*4");
});

it("signal: marks stand beside the text, at places in UTF-16 units", () => {
  const cases: [string, string, string[]][] = [
    ["a **bold _both_ bold** c", "a bold both bold c", ["2:14:BOLD", "7:4:ITALIC"]],
    ["👍 **b** ~~s~~", "👍 b s", ["3:1:BOLD", "5:1:STRIKETHROUGH"]],
    ["👩‍👩‍👧‍👦 日本 **語**", "👩‍👩‍👧‍👦 日本 語", ["15:1:BOLD"]],
    ["# Head\n\nuse `a*b*`", "Head\n\nuse a*b*", ["0:4:BOLD", "10:4:MONOSPACE"]],
    ["```ts\nif (a) {\n  b();\n}\n```", "if (a) {\n  b();\n}", ["0:17:MONOSPACE"]],
    ["[**t**](https://a.example/b_(c))", "t (https://a.example/b_(c))", ["0:1:BOLD"]],
    ["> quoted\n> **x**", "> quoted\n> x", ["11:1:BOLD"]],
    ["- **a\n  b**", "• a\n  b", ["2:5:BOLD"]],
    ["| a | n |\n|--|--|\n| **b** | 100 |", "a | n\n--+----\nb | 100", ["0:21:MONOSPACE"]],
  ];
  for (const [source, text, styles] of cases) expect(toSignal(source)).toEqual({ text, styles });
});

it("telegram: what is written is HTML that it takes, with at most as many entities as it shows", () => {
  for (const [, html = ""] of TELEGRAM) expect(parseHtml(html)).toEqual({ text: htmlText(html) });
  const links = Array.from(
    { length: 120 },
    (_, index) => `[l${index}](https://x.example/${index})`,
  );
  const html = toHtml(links.join("\n"));
  expect(html.match(/<a /g)).toHaveLength(100);
  expect(html).toContain("l119 (https://x.example/119)");
  expect(toHtml("**b** ".repeat(120)).match(/<b>/g)).toHaveLength(100);
  expect(toPlainText("**a** [b](https://x.example) `<c>`")).toBe("a b (https://x.example) <c>");
});
