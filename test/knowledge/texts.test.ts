import { describe, expect, it } from "vitest";
import { readPassages } from "./passages.ts";

const utf16 = (text: string, isBigEndian: boolean): Buffer => {
  const bytes = Buffer.from(text, "utf16le");
  return isBigEndian ? bytes.swap16() : bytes;
};
const XML = '<?xml version="1.0"?>';
/** A word in ISO-2022-JP. */
const JIS = Buffer.from("1b2442467c4b5c1b2842", "hex");

describe("UTF-16 without a byte order mark", () => {
  const TEXTS = [
    ["English", "Descaling takes twenty minutes.\nThe café opens at seven."],
    ["Chinese", "订单已经发货了，请等待。除垢需要二十分钟和柠檬酸。"],
    ["Chinese with its ones", "一个星期一次。每一台咖啡机都要除垢。"],
    ["Japanese", "傘は九十日間、青い棚に保管されます。"],
    ["Korean", "커피 머신은 한 달에 한 번 청소합니다."],
    ["Russian", "Очистка занимает двадцать минут."],
    ["Arabic", "تنظيف الترسبات يستغرق عشرين دقيقة"],
    ["several scripts", "Opening hours 营业时间 Часы работы\nMonday 星期一 ☕😀"],
    ["Thai", "ร้านกาแฟเปิดเวลาเจ็ดโมงเช้า และปิดสามทุ่ม"],
  ] as const;
  it.each(TEXTS)("%s", async (_language, text) => {
    for (const isBigEndian of [true, false])
      expect((await readPassages("a.txt", utf16(text, isBigEndian))).lines).toEqual(
        text.split("\n"),
      );
  });
});

it.each<[what: string, filename: string, content: string | Uint8Array, lines: string[]]>([
  ["a table in UTF-16", "a.csv", utf16("id,name\n1,Matcha\n", false), ["id | name", "1 | Matcha"]],
  ["a page in UTF-16", "a.html", utf16("<!doctype html><body><p>Beans.</p>", true), ["Beans."]],
  ["a text in ISO-2022-JP", "a.txt", JIS, ["日本"]],
  [
    "a page that declares ISO-2022-JP",
    "a.html",
    Buffer.concat([
      Buffer.from('<html><head><meta charset="iso-2022-jp"></head><body><p>'),
      JIS,
      Buffer.from("</p></body></html>"),
    ]),
    ["日本"],
  ],
  [
    "a short Polish text",
    "a.txt",
    Buffer.from("5a61bff3b3e62067ea9c6cb9206a619ff12c2070726f737aea2e", "hex"),
    ["Zażółć gęślą jaźń, proszę."],
  ],
  [
    "a short Thai text",
    "a.txt",
    Buffer.from("b9d5e8a4d7cda2e9cda4c7d2c1c0d2c9d2e4b7c2cad1e9b9", "hex"),
    ["นี่คือข้อความภาษาไทยสั้น"],
  ],
  [
    "a short Hebrew text",
    "a.txt",
    Buffer.from("f9ece5ed20f2e5eced2c20e6e420e8f7f1e820f7f6f820e1f2e1f8e9fa2e", "hex"),
    ["שלום עולם, זה טקסט קצר בעברית."],
  ],
  [
    "UTF-8 of which some characters were cut in two",
    "a.txt",
    Buffer.concat([Buffer.from("Größe Köln Привет 日本 "), Buffer.from([0xe4, 0x20, 0xc3])]),
    ["Größe Köln Привет 日本 \ufffd \ufffd"],
  ],
  ["a log in colours", "a.log", "\u001b[31mError\u001b[0m: disk full\n", ["Error: disk full"]],
  [
    "amounts with decimal commas, without names of columns",
    "a.csv",
    "Kelp;1,50\nCod;2,50\n",
    ["Kelp | 1,50", "Cod | 2,50"],
  ],
  [
    "lines of JSON in a file with another ending, of which the last is cut off",
    "a.json",
    '{"greeting":"Gr\\u00fc\\u00dfe"}\n{"greeting":"Mo',
    ["greeting: Grüße", '{"greeting":"Mo'],
  ],
  [
    "Markdown with code in one line, in a list, and in other code",
    "a.md",
    "```npm install```\n# C#\n- ```sh\n  # no heading\n  ```\n## Use ##\n```\n```js\n# none\n```\n# End\n",
    [
      "```npm install```",
      "C#",
      "- ```sh",
      "  # no heading",
      "  ```",
      "Use",
      "```",
      "```js",
      "# none",
      "```",
      "End",
    ],
  ],
  [
    "Markdown tables without outer bars, and with bars in their cells",
    "a.md",
    "Prices\nName | Price\n--|--\nKelp | 3\n\n| Type |\n|---|\n| `a \\| b` |\n",
    ["Prices", "Name | Price", "Kelp | 3", "Type", "`a | b`"],
  ],
  [
    "a page with code in lines, words in elements of Word, and readings of characters",
    "a.html",
    "<body><pre>one<br>two</pre><p>The <st1:City>London</st1:City> office<sup><a href=#a>1</a></sup> of m<sup>2</sup></p><p><ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp>京<rt>きょう</rt></ruby></p>",
    ["one", "two", "The London office 1 of m2", "東京"],
  ],
  [
    "a page that is named as a workbook",
    "report.xls",
    "<table border=1><tr><th>Name<th>Price<tr><td>Kelp<td>3</table>",
    ["Name | Price", "Kelp | 3"],
  ],
  [
    "a page in a link and a font",
    "a.html",
    "<body><font><a id=top><h1>Fees</h1><p>Of the year</p><table><tr><td>Kelp<td>3</table></a></font>",
    ["Fees", "Of the year", "Kelp | 3"],
  ],
  [
    "RTF with two paragraphs in a cell",
    "a.rtf",
    String.raw`{\rtf1\ansi\trowd\cellx1\cellx2\pard\intbl North\par basin\cell 12\cell\row\pard End.\par}`,
    ["North basin | 12", "End."],
  ],
  [
    "commas in quoted names",
    "a.csv",
    '"Name, first";Age\nKelp;4\n',
    ["Name, first | Age", "Kelp | 4"],
  ],
  [
    "its separator in the first line",
    "a.csv",
    "sep=;\r\nName;Price\r\nKelp;3,50\r\n",
    ["Name | Price", "Kelp | 3,50"],
  ],
  [
    "a title above it",
    "a.csv",
    "Prices, all of them, May\nName;Price;Unit\nKelp;3,50;kg\nCod;4,50;kg\n",
    ["Prices, all of them, May", "Name | Price | Unit", "Kelp | 3,50 | kg", "Cod | 4,50 | kg"],
  ],
  [
    "a quote that is not closed, of which it says where",
    "a.csv",
    'name,price\nMatcha,4.2\n"Sencha,3\nGenmaicha,5\n',
    [
      "name | price",
      "Matcha | 4.2",
      "(A quote in line 3 is not closed: from there on, quotes are text.)",
      '"Sencha | 3',
      "Genmaicha | 5",
    ],
  ],
  [
    "a table with spaces before quotes",
    "a.csv",
    'name, note\nKelp, "fresh, cold"\n',
    ["name | note", "Kelp | fresh, cold"],
  ],
  [
    "a table with quotes behind backslashes",
    "a.csv",
    'name,note\nKelp,"called \\"sea, weed\\" here"\nCod,x\n',
    ["name | note", 'Kelp | called "sea, weed" here', "Cod | x"],
  ],
  [
    "a table in HTML with a byte order mark, under the ending of another format",
    "a.xls",
    "\ufeff<html><body><table><tr><th>Berth</th><th>Fee</th></tr><tr><td>North</td><td>12</td></tr></table></body></html>",
    ["Berth | Fee", "North | 12"],
  ],
  [
    "a page that names its character set late, and formulas in one line",
    "a.html",
    Buffer.from(
      `<html><head><!--${"x".repeat(3000)}--><meta charset="windows-1251"></head><body><p>\u00cf\u00f0\u00e8 <math><mi>x</mi><mo>=</mo><mn>2</mn></math></p></body></html>`,
      "latin1",
    ),
    ["При x=2"],
  ],
  [
    "XML with a byte order mark and names of characters that HTML has",
    "a.xml",
    "\ufeff<?xml version='1.0'?><fees><fee>5&nbsp;&euro; &amp; more</fee></fees>",
    ["fee: 5 € & more"],
  ],
  [
    "Markdown with fields in TOML",
    "a.md",
    '+++\ntitle = "Fees"\n+++\nKelp\n',
    ['title = "Fees"', "Kelp"],
  ],
  [
    "RTF with a table in a cell, columns, and the code page of a Mac",
    "a.rtf",
    String.raw`{\rtf1\mac caf\'8e\column Two\par\trowd\cellx1\cellx2 A\cell{\pard\intbl\itap2 in\nestcell side\nestcell}\pard\intbl B\cell\row}`,
    ["café", "Two", "A | in side B"],
  ],
  [
    "numbers of JSON with all their digits",
    "a.json",
    '{"order":{"id":12345678901234567890,"rate":1.10}}',
    ["order.id: 12345678901234567890", "order.rate: 1.10"],
  ],
  [
    "JSON by its members",
    "a.json",
    '[{"sku":"A-1","tags":["red","wool"]},{"sku":"B-2","name":"Blue kettle"}]',
    ["sku: A-1; tags.0: red; tags.1: wool", "sku: B-2; name: Blue kettle"],
  ],
  [
    "numbers of lines of JSON with all their digits",
    "a.jsonl",
    '{"order":{"id":12345678901234567890,"rate":1.10}}\n',
    ["order.id: 12345678901234567890; order.rate: 1.10"],
  ],
  [
    "RTF without its fonts, styles and pictures, in its code page and in Unicode",
    "a.rtf",
    String.raw`{\rtf1\ansi\ansicpg1251\uc1{\fonttbl{\f0 Times New Roman;}}{\stylesheet{\s1 heading 1;}}{\info{\title Secret}}{\*\generator Writer;}
\f0\pard \'cf\'f0\'e8\'e2\'e5\'f2 \b harbour\b0  caf\u233?!\par Price:\tab \u8364? 5 \{net\}\par{\pict\wmetafile8 010009}\trowd Matcha\cell 4.2\cell\row {\field{\*\fldinst HYPERLINK "http://a"}{\fldrslt the list}}}`,
    ["Привет harbour café!", "Price:\t€ 5 {net}", "Matcha | 4.2", "the list"],
  ],
  [
    "RTF with characters of two bytes",
    "a.rtf",
    String.raw`{\rtf1\ansi\ansicpg936 \'b3\'fd\'b9\'b8\'d0\'e8\'d2\'aa\par}`,
    ["除垢需要"],
  ],
  [
    "RTF with merged cells in all that they cover, headers and footers apart, and no hidden text",
    "a.rtf",
    String.raw`{\rtf1\ansi{\header \pard Internal walrus}{\footer\pard Until the tide}\pard Body{\v hidden} text.\par
\trowd\clvmgf\cellx1\clmgf\cellx2\clmrg\cellx3 Berth\cell Price\cell\cell\row\trowd\clvmrg\cellx1\cellx2\cellx3 \cell day\cell night\cell\row\pard End.\par}`,
    [
      "Internal walrus",
      "Until the tide",
      "Body text.",
      "Berth | Price | Price",
      "Berth | day | night",
      "End.",
    ],
  ],
  [
    "RTF with fonts that have character sets of their own",
    "a.rtf",
    String.raw`{\rtf1\ansi{\fonttbl{\f0\fcharset204 Arial;}{\f1\fcharset0 Arial;}}\f0 \'cf\'f0\'e8\f1  caf\'e9\par}`,
    ["При café"],
  ],
  [
    "RTF of TextEdit, with a paragraph behind each backslash at the end of a line",
    "a.rtf",
    String.raw`{\rtf1\ansi\ansicpg1252\cocoartf2639
\f0\fs24 \cf0 Open at nine\
\
Closed on caf\'e9 days\
}`,
    ["Open at nine", "Closed on café days"],
  ],
  [
    "XML by its elements, in the encoding that it declares",
    "a.xml",
    Buffer.from(
      `<?xml version="1.0" encoding="ISO-8859-1"?><m:menu xmlns:m="http://menu.example" xml:lang="en"><title>Caf\u00e9</title>
<drink id="7" price="4.2"><name>Matcha</name></drink><p>Served <b>hot</b> &amp; cold.</p><![CDATA[Closed on Mondays]]></m:menu>`,
      "latin1",
    ),
    [
      "title: Café",
      "name: Matcha",
      "drink id=7 price=4.2",
      "p: Served hot & cold.",
      "menu: Closed on Mondays",
    ],
  ],
])("%s is read", async (_what, filename, content, lines) => {
  expect((await readPassages(filename, content)).lines).toEqual(lines);
});

it.each([
  [
    "bytes that are no text in any encoding",
    "a.txt",
    Buffer.from(
      Array.from({ length: 4000 }, (_, index) => 128 + ((index * index * 37 + index * 11) % 32)),
    ),
  ],
  ["RTF with 100,000 groups in each other", "a.rtf", `{\\rtf1 ${"{".repeat(100_000)}`],
  [
    "XML with entities in entities",
    "a.xml",
    `${XML}<!DOCTYPE a [<!ENTITY x "lol"><!ENTITY y "&x;&x;&x;&x;">]><a>&y;</a>`,
  ],
  [
    "XML with a file of the machine",
    "a.xml",
    `${XML}<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>`,
  ],
  ["XML with 100,000 elements in each other", "a.xml", `${XML}${"<a>".repeat(100_000)}`],
  ["XML with an end that is missing", "a.xml", `${XML}<a><b>text</b>`],
])("%s is refused", async (_what, filename, content) => {
  await expect(readPassages(filename, content)).rejects.toMatchObject({ code: "broken_document" });
});

it("RTF has text boxes once, and headings", async () => {
  const rtf = String.raw`{\rtf1\ansi\pard\outlinelevel0 Rental\par\pard\outlinelevel9 Bikes{\shp{\*\shpinst{\sp{\sn shapeType}{\sv 202}}{\shptxt \pard in the box\par}}{\shprslt{\*\do{\dptxbxtext \pard in the box\par}}}} are cheap.\par}`;
  expect((await readPassages("box.rtf", rtf)).passages).toMatchObject([
    { headings: ["Rental"], text: "Rental\n\nBikes\n\nin the box\n\nare cheap." },
  ]);
});

it.each([
  ['title: ""', "Fees"],
  ["title: >-\n  Of the year", "Fees"],
  ['title: "Rules: all"', "Rules: all"],
])("Markdown with the front matter %s has the title %s", async (front, title) => {
  expect((await readPassages("a.md", `---\n${front}\n---\n# Fees\n`)).title).toBe(title);
});

it("a page's second headings are under its first one", async () => {
  const text = "The deposit for a bicycle is forty pounds, which is returned. ".repeat(40);
  const page = `<html><head><title>Hire</title></head><body><nav>Menu</nav><article><h1>Bicycles</h1><p>${text}</p><h2>Deposits</h2><p>${text}</p></article></body></html>`;
  const { passages } = await readPassages("hire.html", page);
  expect(passages.at(-1)?.headings).toEqual(["Bicycles", "Deposits"]);
});
