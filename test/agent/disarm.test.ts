import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cleanReply, createReplyCleaner } from "../../src/agent/reply/disarm.ts";
import { findCode } from "../../src/agent/reply/markdown-code.ts";
import { expectProportional } from "../growth.ts";
import { findLive } from "./markdown-judge.ts";

const disarm = (text: string): string => cleanReply(text).text;

/** The output after each piece, and the output at the end. */
function inPieces(pieces: readonly string[], hosts?: readonly string[]): string[] {
  const cleaner = createReplyCleaner(hosts);
  return [...pieces.map((piece) => cleaner.push(piece)), cleaner.end()];
}

const cut = (text: string, lengths: readonly number[]): string[] => {
  const pieces: string[] = [];
  for (let at = 0, turn = 0; at < text.length; turn++) {
    const length = lengths[turn % lengths.length] ?? 1;
    pieces.push(text.slice(at, at + length));
    at += length;
  }
  return pieces;
};

describe("images", () => {
  it.each([
    ["![chart](https://x.example/a.png)", "chart (https://x.example/a.png)"],
    ['![chart](https://x.example/a.png "a title")', "chart (https://x.example/a.png)"],
    ["![chart](<https://x.example/a.png>)", "chart (https://x.example/a.png)"],
    ["![chart](https://x.example/a_(1).png)", "chart (https://x.example/a_(1).png)"],
    ["![](https://x.example/a.png)", "https://x.example/a.png"],
    [
      "[![build](https://x.example/b.svg)](https://x.example)",
      "[build (https://x.example/b.svg)](https://x.example)",
    ],
    ["[r]: https://x.example/a.png\n\n![chart][r]", "[r]: https://x.example/a.png\n\n! [chart][r]"],
    ["![chart][r]\n\n[r]: https://x.example/a.png", "![chart][r]\n\n[r] : https://x.example/a.png"],
    ["![r][]\n\n[ R ]: https://x.example/a.png", "![r][]\n\n[ R ] : https://x.example/a.png"],
    ["![r]\n\n[r]: https://x.example/a.png", "![r]\n\n[r] : https://x.example/a.png"],
    ["!![r]\n\n[r]: https://x.example/a.png", "!![r]\n\n[r] : https://x.example/a.png"],
    ["> ![a\n> b]\n\n[a b]: //x.example", "> ![a\n> b]\n\n[a b] : //x.example"],
    ["![a [b] c](https://x.example/a.png)", "! [a [b] c](https://x.example/a.png)"],
    ["![a `]` c](https://x.example/a.png)", "! [a `]` c](https://x.example/a.png)"],
    ["![a](<//x.example/b c>)", "! [a](<//x.example/b c>)"],
    ["![a](&#47;/x.example/b)", "a (&#47;/x.example/b)"],
    ["> ![a\n> b](https://x.example/a.png)", "> ! [a\n> b](https://x.example/a.png)"],
  ])("%j", (text, expected) => {
    expect(findLive(text)).not.toEqual([]);
    expect(disarm(text)).toBe(expected);
    expect(findLive(expected)).toEqual([]);
  });
});

describe("HTML that fetches something from outside", () => {
  it.each([
    [
      '<img src="https://x.example/a.png" alt=b>',
      '<img src-disarmed="https://x.example/a.png" alt=b>',
    ],
    [
      "a <IMG\nsrcset='a.png 1x, //x.example/b 2x'\n/> b",
      "a <IMG\nsrcset-disarmed='a.png 1x, //x.example/b 2x'\n/> b",
    ],
    ["> a <img\n> src=//x.example> b", "> a <img\n> src-disarmed=//x.example> b"],
    ["<iframe src=//x.example></iframe>", "<iframe src-disarmed=//x.example></iframe>"],
    [
      "<iframe srcdoc='&lt;img src=//x.example>'>",
      "<iframe srcdoc-disarmed='&lt;img src=//x.example>'>",
    ],
    ["<video poster=//x.example/p controls>", "<video poster-disarmed=//x.example/p controls>"],
    [
      "<picture><source srcset=//x.example/p></picture>",
      "<picture><source srcset-disarmed=//x.example/p></picture>",
    ],
    ["<object data=//x.example></object>", "<object data-disarmed=//x.example></object>"],
    ["<embed src=//x.example>", "<embed src-disarmed=//x.example>"],
    [
      "<link rel=stylesheet href=//x.example/a.css>",
      "<link rel=stylesheet href-disarmed=//x.example/a.css>",
    ],
    ["<script src=//x.example/a.js></script>", "<script src-disarmed=//x.example/a.js></script>"],
    ["<base href=//x.example/>", "<base href-disarmed=//x.example/>"],
    [
      "<table background=//x.example/p></table>",
      "<table background-disarmed=//x.example/p></table>",
    ],
    [
      "<p style='background:url(//x.example/p)'>a</p>",
      "<p style-disarmed='background:url(//x.example/p)'>a</p>",
    ],
    [
      "<p style='background:u\\72l(//x.example/p)'>a</p>",
      "<p style-disarmed='background:u\\72l(//x.example/p)'>a</p>",
    ],
    ["<svg><image href=//x.example/p /></svg>", "<svg><image href-disarmed=//x.example/p /></svg>"],
    [
      "<svg><use xlink:href='//x.example/p#a'/></svg>",
      "<svg><use xlink:href-disarmed='//x.example/p#a'/></svg>",
    ],
    [
      "<meta http-equiv=refresh content='0;url=//x.example'>",
      "<meta http-equiv=refresh content-disarmed='0;url=//x.example'>",
    ],
    [
      "<style>p{background:url(//x.example/p)}</style>",
      "<style>p{background:url (//x.example/p)}</style>",
    ],
    [
      "<style>\n\n@import '//x.example/p';\n</style>",
      "<style>\n\n@ import '//x.example/p';\n</style>",
    ],
    ["<div>\n`<img src=//x.example>`\n</div>", "<div>\n`<img src-disarmed=//x.example>`\n</div>"],
    [
      "<!-- a\n\n```\n-->\n<img src=//x.example>",
      "<!-- a\n\n```\n-->\n<img src-disarmed=//x.example>",
    ],
    ["<img title='\n\n' src=//x.example b", "< img title='\n\n' src=//x.example b"],
    [
      "<p title='\n\n' style=background:url(//x.example) b",
      "<p title='\n\n' style-disarmed=background:url (//x.example) b",
    ],
  ])("%j", (text, expected) => {
    expect(disarm(text)).toBe(expected);
    expect(inPieces([...text]).join("")).toBe(expected);
    expect(findLive(expected)).toEqual([]);
  });

  it("is found by the judge of these tests", () => {
    for (const text of [
      "<img src=//x.example>",
      "<p style='background:url(//x.example)'>",
      "<style>p{background:url(//x.example)}</style>",
      "<iframe srcdoc='&lt;img src=//x.example>'>",
      "<p title='\n\n' style=background:url(//x.example) b",
      "<base href=//x.example>",
    ])
      expect(findLive(text), text).not.toEqual([]);
  });

  it("is disarmed where parsers read as text what others take for code", () => {
    for (const text of [
      "`a | <img src=//x.example>`\n--|--",
      "| a ` | b ` <img src=//x.example> ` c |\n|--|--|",
      "[a [b] c](d`e) `<img src=//x.example>`",
      "[``<img src=//x.example>`` `",
      "https://a.example/`a` <img src=//x.example> `",
      "[a]: b\n===\n    <img src=//x.example>",
      "[^1]: a\n\n    <img src=//x.example>",
      "> a\n2. ```\n<img src=//x.example>\n```",
      "> `a\n<img src=//x.example>\n`",
      "a |\n--|--\n1. 2.     (`<img src=//x.example>` ![a](//x.example)",
      "a](https://a.example/)`<img src=//x.example>`[c `",
      "<img ![](src=//x.example)>",
      '<x a="![c](d "e")> ">![a](//x.example)',
      "![```](//x.example)\n\n```\n<img src=//x.example>\n```",
    ])
      expect(findLive(disarm(text)), text).toEqual([]);
  });
});

/** The same texts each time: the parsers that judge have faults of their own, which a build should not meet by chance. */
const SEED = 20_260;

describe("text that fetches nothing", () => {
  it.each([
    "a < b && c > d, a <3, x<=y, 1<2, <-",
    "std::vector<int>, Map<K,V>, List<String> is a type, <T>, <p>Hello</p>",
    "<read_file>\n<path>a.ts</path>\n</read_file>",
    "a <!-- b --> c <?php d ?> e <![CDATA[f]]> <b\nonclick=5>",
    "vec![1, 2], vec![vec![0; n]; m], #![allow(x)], a![0].b, wow![1]",
    "![a](b.png) ![c](/d/e.png?f=g) ![h](data:image/png;base64,iVBORw0KGgo=) ![i][j]\n",
    `![a](data:image/png;base64,${"iVBOR".repeat(900)})`,
    `<img src="data:image/png;base64,iVBORw0KGgo=" alt="a"> <img src=a.png srcset="b.png 2x">`,
    "<a href='https://x.example'>b</a> <form action=https://x.example></form>",
    '<file src="https://x.example/a"/> <meta property="og:url" content="https://x.example">',
    `<svg xmlns="http://www.w3.org/2000/svg"><path d="${"M0 0 ".repeat(900)}" fill="url(#a)"/></svg>`,
    "<style>\na::before { content: '\\201C'; background: url(b.png) }\n</style>\n\n```html\n<img src=//x.example>\n```",
    "<details>\n<summary>a</summary>\n\n```html\n<img src=//x.example>\n```\n\n</details>",
    "<!-- a -->\n\n`<img src=//x.example>`",
    "<p>a</p>\n\n    <img src=//x.example>",
    "if a <b and c then",
    "see <https://x.example/?a=b&c=d> and <me@x.example>",
    "> - - a\n> \n> -     <div>\n>       ![a](b)\n>   \n>   a",
    "not an image: ! [a](b), \\![a](b), !important, wow!",
    "escaped \\<b>, &lt;b&gt; and &amp;",
    "`<div>` and ``a ` <img src=x>`` and `![a](b)`",
    "`Promise<A> | Promise<B>`\nand more",
    "`Promise<A> | Promise<B>`",
    "| type | note |\n|------|------|\n| `List<A>` | `![a](b)` |\n| `Foo<A> \\| null` | x |",
    "a `code\nof <two> lines` b",
    "```html\n<div>![a](b)</div>\n```\nafter",
    "~~~~\n<b>\n~~~\n<i>\n~~~~",
    "1. Do:\n\n   ```tsx\n   <App />\n   ```\n\n2. Then `<b>`.\n   - `<c>`\n\n     ```\n     <d>\n     ```",
    "> ```\n> <div>\n> ```\n> `<b>`",
    "text\n\n    <div>\n\n    </div>\n\ntext",
    "[a `<b>` c](https://x.example) and [d](<e f> 'g') and [h](https://x.example \"<i>\")",
    "# Use `<b>`\n\nTitle `<c>`\n===\n",
    "- [ ] open `<b>`\n- [x] done",
    "[1]: https://x.example 'title'\n",
    "[^1] says\n\n[^1]: Use `<b>`.",
    "a\r\nb `<c>`\r\n\r\n```\r\n<d>\r\n```\r\n",
    "```\n<a>\n\u00a0\n<b>\n```\n`<c>`",
    "1. Run:\n```sh\ncat <in> out\n```\n2. Then `<b>`:\n```\n<c>\n```\nand `<d>`",
    "* a\n    * b `<c>`\n\n      ```\n      <d>\n      ```\n* e `<f>`\ngoes on `<g>`",
    "**Note:** the `<b>` tag; `[x](<y z>)`; it's 5\" long.\n\n***\n\n> quote `<c>`\ngoes on `<d>`",
    "![]",
  ])("%j stays as it is", (text) => {
    expect(findLive(text)).toEqual([]);
    expect(disarm(text)).toBe(text);
  });

  const word = fc.constantFrom(
    "word",
    "Zwölf",
    "a < b",
    "x!",
    "**bold**",
    "_it_",
    "it's",
    "1.5",
    "C#",
    "(so)",
    "50%",
    "<3",
    "a&b",
    "日本",
    "🙂",
    "`x`",
  );
  const code = fc.constantFrom(
    "`<div>`",
    "`![a](//x.example)`",
    "``a ` <img src=//x.example>``",
    "`List<A>`",
    "`<!-- c -->`",
    "`</p>`",
  );
  const link = fc.constantFrom(
    "[doc](https://x.example/a)",
    "<https://x.example>",
    "https://x.example/b",
    '[t](/u "v")',
    "[r][1]",
  );
  const line = fc
    .array(fc.oneof({ weight: 4, arbitrary: word }, code, link), { minLength: 1, maxLength: 8 })
    .map((words) => `Then ${words.join(" ")}.`);
  const fence = fc.constantFrom(
    "```html\n<div>\n![a](//x.example)\n\n</div>\n```",
    "~~~\n<img src=//x.example>\n~~~",
    "````\n```\n<b>\n```\n````",
  );
  const quote = (text: string): string => text.replaceAll(/^/gm, "> ");
  const item = (text: string): string => `- ${text.replaceAll("\n", "\n  ")}`;
  const { block } = fc.letrec<{ block: string }>((tie) => ({
    block: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      fc.array(line, { minLength: 1, maxLength: 3 }).map((lines) => lines.join("\n")),
      fence,
      line.map((text) => `## ${text}`),
      fc.constantFrom("---", "    <div>\n    ![a](b)", "| a | b |\n|---|---|\n| `<c>` | d |"),
      fc
        .array(tie("block"), { minLength: 1, maxLength: 2 })
        .map((blocks) => quote(blocks.join("\n\n"))),
      fc
        .array(tie("block"), { minLength: 1, maxLength: 2 })
        .map((blocks) => item(blocks.join("\n\n"))),
    ),
  }));

  it("stays as it is, code with either in it too", () => {
    fc.assert(
      fc.property(
        fc.array(block, { minLength: 1, maxLength: 5 }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
        (blocks, lengths) => {
          const text = blocks.join("\n\n");
          fc.pre(findLive(text).length === 0);
          expect(disarm(text)).toBe(text);
          expect(inPieces(cut(text, lengths)).join("")).toBe(text);
        },
      ),
      { numRuns: 100, seed: SEED },
    );
  });
});

describe("any text", () => {
  const INLINE =
    "` `` ![a](//u) ![ ]( ) [ ] <b> <img_src=//x> < > \\ | \n _ a ! <http://x`y> https://a.b/ \" ' ( <b_ ]: [x]:_//y [^1]:_ ![r] ![a][r] [r]:_//z * <!-- --> \n--|--\n &lt; <b_c> \n\n [` `<b>` \r\n ](//e) <p_title=' <p_title=\" _style='background:url(//e)' '> \"> <iframe _src=//i";
  const BLOCKS =
    "-_ 1._ 2._ >_ ____ __ \t _ ``` ~~~ <img_src=//x> ` a \n \n \n\n #_ --- === [a]:_b [^1]:_x <div ![a](//b) |_a_|_b_| --|-- | `` <b> - 1. * +_ ___ \r <div> </div> <pre> </pre> <style> </style> url(//s) <p_id=' ' ' <a>\n <!-- --> ![r] [r]:_//e";
  const parts = (text: string) =>
    fc.constantFrom(...text.split(" ").map((part) => part.replaceAll("_", " ")));
  const noise = fc
    .oneof(
      fc.array(parts(INLINE), { maxLength: 24 }),
      fc.array(parts(BLOCKS), { maxLength: 30 }),
      fc.array(parts(`${INLINE} ${BLOCKS}`), { maxLength: 24 }),
    )
    .map((all) => all.join(""));
  const lengths = fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 5 });

  it("fetches nothing in any reader", () => {
    fc.assert(
      fc.property(noise, (text) => {
        expect(findLive(disarm(text))).toEqual([]);
      }),
      { numRuns: 200, seed: SEED },
    );
  });

  it("comes out of a stream as it comes out whole, however it is cut", () => {
    fc.assert(
      fc.property(noise, lengths, (text, at) => {
        expect(inPieces(cut(text, at)).join("")).toBe(disarm(text));
      }),
      { numRuns: 300 },
    );
  });

  it("fetches nothing when links to other hosts are gone, and comes out of a stream so", () => {
    const links = parts(
      `${INLINE} !https://evil.example [b](https://evil.example) ![c](//evil.example/d) [r]:_https://evil.example`,
    );
    fc.assert(
      fc.property(fc.array(links, { maxLength: 20 }), lengths, (all, at) => {
        const { text } = cleanReply(all.join(""), ["ok.example"]);
        expect(findLive(text)).toEqual([]);
        expect(inPieces(cut(all.join(""), at), ["ok.example"]).join("")).toBe(text);
      }),
      { numRuns: 150, seed: SEED },
    );
  });
});

describe("a stream", () => {
  it("lets prose out word by word, and code and links with it", () => {
    const pieces = [
      "Hel",
      "lo, ",
      "a ",
      "< ",
      "b ",
      "and `co",
      "de` in ",
      "[a li",
      "nk](https://x.example)",
      "!\n",
      "- it",
      "em\n",
      "1",
      ". one\n\n",
      "```js\n",
      "if (a <b) {",
      "}\n```\n",
    ];
    expect(inPieces(pieces)).toEqual([...pieces, ""].map((piece) => piece));
  });

  it("lets HTML, types and comparisons out with the next sign", () => {
    const pieces = [
      "a<b, ",
      "c ",
      "Map<K,V",
      "> ",
      "<p",
      ">e ",
      "</p",
      "> ",
      "<read_",
      "file>",
      "x",
    ];
    const out = inPieces(pieces);
    expect(out.join("")).toBe(pieces.join(""));
    expect(out).toEqual([
      "a<b, ",
      "c ",
      "Map<K,V",
      "> ",
      "",
      "<p>e ",
      "</p",
      "> ",
      "<read_",
      "file>",
      "x",
      "",
    ]);
  });

  it("holds a sign back only until it is clear what it becomes", () => {
    expect(
      inPieces([
        "a <",
        "b ",
        "c, d ",
        "<img",
        " src=//i",
        ">e ",
        "!",
        "[f",
        "](",
        "//g",
        ") h",
        " `<",
        "i>",
        "` j",
      ]),
    ).toEqual([
      "a ",
      "",
      "<b c, d ",
      "",
      "",
      "<img src-disarmed=//i>e ",
      "",
      "",
      "",
      "",
      "! [f](//g) h",
      " `",
      "<i>",
      "` j",
      "",
    ]);
  });

  it("holds what loads something beside code to the end of its block", () => {
    const pieces = ["Use `<img src=//x>`", " or `x`.", "\nSo.", "\n\n", "Next ", "`![a](//b)`"];
    expect(inPieces(pieces)).toEqual([
      "Use `",
      "",
      "",
      "<img src=//x>` or `x`.\nSo.\n\n",
      "Next ",
      "`",
      "![a](//b)`",
    ]);
  });

  it("is not held up by what never ends", () => {
    for (const text of [
      `![${"x".repeat(5000)}`,
      `<a b="${"x".repeat(5000)}`,
      `\`<b>${" x".repeat(2500)}`,
      `[\`<b>\`${" x".repeat(2500)}`,
      `a\n\`<b>|\`${" x".repeat(2500)}`,
    ]) {
      const cleaner = createReplyCleaner();
      let held = 0;
      let said = "";
      for (const piece of cut(text, [50])) {
        held += piece.length;
        const out = cleaner.push(piece);
        said += out;
        if (out !== "") held = 0;
        expect(held).toBeLessThan(2200);
      }
      expect(findLive(`${said}${cleaner.end()}](y)">\``)).toEqual([]);
    }
  });
});

describe("a hostile text", () => {
  it.each([
    "![",
    "<",
    "`",
    "[",
    "*",
    "<a ",
    "<!--",
    "](",
    "[a](",
    "` `` ",
    '<a b="',
    "- ",
    "> ",
    "a\n\n",
    "![a](",
    "[a]: ",
    "\\",
    "<http://",
    "|`a|b`<b>\n",
    "`<b>` ",
    "`\n",
    "](((",
    "<a b c d e f g h i j",
    "<p>\n<a b = c d = ",
    "<style> url( ",
    "![a [b] ",
    "![a][b] [b]: ",
    "\n> > ",
    "[`<b>` ",
    "- `<img src=//x>`\n",
    "`a` <img src=//x>\n\n ",
  ])("of %j takes time in proportion to its length", async (unit) => {
    const text = (length: number): string => unit.repeat(Math.ceil(length / unit.length));
    await expectProportional((length) => disarm(text(length)), 3000);
    await expectProportional((length) => inPieces([...text(length)]), 3000);
  });

  it("finds the code of a paragraph in time in proportion to its length", async () => {
    const line = "See `code` and [here](https://a.example) for the words of a line.\n";
    await expectProportional((count) => findCode(line.repeat(count)), 40);
  });
});
