import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toBatches } from "../../plugins/gmail/deliver.ts";
import { htmlToText } from "../../plugins/gmail/html.ts";
import {
  cut,
  decodeHeader,
  decodeText,
  readMailText,
  toMail,
  type GmailMessage,
  type MailMessage,
  type MimePart,
} from "../../plugins/gmail/messages.ts";
import { expectProportional } from "../growth.ts";

const part = (
  mimeType: string,
  bytes: string | Uint8Array,
  charset = "UTF-8",
  more: Partial<MimePart> = {},
): MimePart => ({
  mimeType,
  filename: "",
  headers: [{ name: "Content-Type", value: `${mimeType}; charset="${charset}"` }],
  body: { size: bytes.length, data: Buffer.from(bytes as string).toString("base64url") },
  ...more,
});
const mail = (payload: MimePart, more: Partial<GmailMessage> = {}): GmailMessage => ({
  id: "m1",
  threadId: "t1",
  payload,
  ...more,
});
const textOf = (payload: MimePart): Promise<string> =>
  readMailText(payload, async ({ body }) => body?.data ?? "");

describe("the text of a mail", () => {
  const many = (subtype: string, ...parts: MimePart[]): MimePart => ({
    mimeType: `multipart/${subtype}`,
    parts,
  });
  const attached = part("text/plain", "secret log", "utf-8", { filename: "log.txt" });
  const disposed = part("text/plain", "also", "utf-8", {
    headers: [{ name: "Content-Disposition", value: "attachment" }],
  });
  const inner = { mimeType: "message/rfc822", parts: [part("text/plain", "forwarded")] };
  const plain = part("text/plain", "plain");
  const html = part("text/html", "<p>rich</p>");
  const pdf = part("application/pdf", "%PDF");

  it.each<[string, MimePart, string]>([
    ["plain text and HTML", many("mixed", many("alternative", html, plain), pdf), "plain"],
    ["HTML in several parts", many("alternative", plain, many("mixed", html, pdf, html)), "plain"],
    ["empty plain text", many("alternative", part("text/plain", ""), html), "rich"],
    ["blank plain text", many("alternative", part("text/plain", " \r\n"), html), "rich"],
    ["a list's footer behind HTML", many("mixed", html, plain), "rich\n\nplain"],
    ["text around a picture", many("mixed", plain, pdf, plain), "plain\n\nplain"],
    ["an invitation behind text", many("mixed", plain, part("text/calendar", "BEGIN")), "plain"],
    ["an invitation alone", many("mixed", part("text/calendar", "BEGIN"), pdf), "BEGIN"],
    [
      "a hint to look at the page",
      many("alternative", part("text/plain", "This needs HTML."), html),
      "rich",
    ],
    [
      "a hint that is short",
      many(
        "alternative",
        part("text/plain", "View in browser."),
        part("text/html", "<p>The crane is repaired until the end of May.</p>"),
        part("text/calendar", "BEGIN"),
      ),
      "The crane is repaired until the end of May.",
    ],
    ["attachments and an attached mail", many("mixed", attached, disposed, inner), ""],
    ["an attachment before text", many("mixed", attached, plain), "plain"],
  ])("is what its reader sees: %s", async (_name, payload, text) => {
    expect(await textOf(payload)).toBe(text);
  });

  it("does not follow nesting without end", async () => {
    let nested: MimePart = part("text/plain", "deep");
    for (let n = 0; n < 5000; n++) nested = { mimeType: "multipart/mixed", parts: [nested] };
    expect(await textOf(nested)).toBe("");
  });

  it.each<[string, string, Uint8Array | string, string]>([
    ["ISO-8859-1", "iso-8859-1", Uint8Array.of(0x47, 0x72, 0xfc, 0xdf, 0x65), "Grüße"],
    ["UTF-8 although the header says ISO-8859-1", "iso-8859-1", "Grüße", "Grüße"],
    [
      "ISO-2022-JP",
      "iso-2022-jp",
      Uint8Array.of(0x1b, 0x24, 0x42, 0x46, 0x7c, 0x4b, 0x5c, 0x1b, 0x28, 0x42),
      "日本",
    ],
    ["Shift_JIS", "Shift_JIS", Uint8Array.of(0x93, 0xfa, 0x96, 0x7b), "日本"],
    ["KOI8-R", "koi8-r", Uint8Array.of(0xcd, 0xc9, 0xd2), "мир"],
    ["a charset that nobody knows", "x-unknown", Uint8Array.of(0x93, 0x61, 0x94), "“a”"],
    ["bytes that are no UTF-8 although the header says so", "utf-8", Uint8Array.of(0xe9), "é"],
    ["what quoted-printable would decode once more", "utf-8", "a=3Db =E9", "a=3Db =E9"],
  ])("is decoded: %s", async (_name, charset, bytes, text) => {
    expect(await textOf(part("text/plain", bytes, charset))).toBe(text);
  });
});

describe("HTML as text", () => {
  it.each([
    ["<p>One</p><p>Two<br>Three</p>", "One\n\nTwo\nThree"],
    ["a  b\n c&nbsp;d", "a b c d"],
    [
      "<style>p { x }</style><script>alert('<p>')</script>Text<!-- no --><head><title>T</title></head>",
      "Text",
    ],
    ["<ul><li>one</li><li>two</li></ul>", "- one\n- two"],
    ["<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"],
    ['<a href="https://x.example/?a=1&amp;b=2">here</a>', "here (https://x.example/?a=1&b=2)"],
    ["<a href='https://x.example/'>https://x.example/</a>", "https://x.example/"],
    ["<a href='javascript:alert(1)'>click</a>", "click"],
    ['<img alt="a > b" src="x">after', "after"],
    [
      "&lt;b&gt; &amp;amp; &#8364; &#x20AC; &euro; &eacute; &#150; &nosuch; &#0;",
      "<b> &amp; € € € é – &nosuch; \ufffd",
    ],
    ["1 < 2 and 3 > 2", "1 < 2 and 3 > 2"],
    ["before <b unclosed", "before <b unclosed"],
    ["<script>never closed", ""],
    ["<html><head><meta charset=utf-8><body>no end of the head", "no end of the head"],
    ['<a href="x"">a quote</a> too <b class="y">many</b>', "a quote too many"],
    ["<pre>\na\n  b <b>c</b>\n\nd</pre>e  f", "a\n  b c\n\nd\n\ne f"],
    ["@&#8203;ann", "@ann"],
    ['<div style="display:none;x:y">pre<div>in</div>view</div><p>Text', "Text"],
    ["<span style='max-height: 0px !important'>pre</span>Text", "Text"],
    ['<td style="font-size:0"><b>Text</b></td>', "Text"],
    ['<img style="display:none">One <p style="display:none">Two', "One\n\nTwo"],
    ["", ""],
  ])("%s", (html, text) => {
    expect(htmlToText(html)).toBe(text);
  });

  it.each([
    "<",
    "<a ",
    "<a href='",
    '<a href="x" ',
    "<!--",
    "<script>",
    "</script",
    "&",
    "<a href=x>",
    "<p ",
    "<p style='display:none'>",
    "<b style='display:none'></b>",
    " ",
  ])("takes time in proportion to its length: %s…", (piece) =>
    expectProportional(
      (count) => htmlToText(piece.repeat(count) + "</a>".repeat(count / 2)),
      25_000,
    ),
  );

  it("never fails, and keeps the words", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => void htmlToText(`<p>${text}</p>`)),
    );
    const letters = fc.stringMatching(/^[a-z]{1,10}$/);
    fc.assert(
      fc.property(
        letters,
        letters,
        (one, two) => htmlToText(`<div>${one}</div><b>${two}</b>`) === `${one}\n${two}`,
      ),
    );
  });
});

describe("headers", () => {
  it.each([
    ["plain", "plain"],
    ["=?utf-8?Q?Gr=C3=BC=C3=9Fe_an_alle?=", "Grüße an alle"],
    ["=?UTF-8?B?R3LDvMOfZQ==?= <a@b.example>", "Grüße <a@b.example>"],
    ["=?iso-8859-1?q?caf=E9?= =?utf-8?q?_=E2=82=AC?=", "café €"],
    // One character in two words.
    ["=?utf-8?q?=E2=82?=\r\n =?utf-8?q?=AC?=", "€"],
    ["=?utf-8*en?Q?a?=", "a"],
    ["=?utf-8?Q?two words?= =?cp932?B?jWA=?=", "two words港"],
    ["=?broken", "=?broken"],
    ["folded\r\n line", "folded line"],
  ])("%s", (value, text) => {
    expect(decodeHeader(value)).toBe(text);
  });

  it("take time in proportion to their length, whatever they are", async () => {
    for (const piece of ["=?", "=?a?b?", "=?utf-8?q?", "=?a?q?x?= ", "?="])
      await expectProportional((count) => decodeHeader(piece.repeat(count)), 2500, piece);
  });

  it("decode bytes whatever the charset is called", () => {
    expect(decodeText(Buffer.from("ü"), " utf8 ")).toBe("ü");
    expect(decodeText(Buffer.from("ü"), undefined)).toBe("ü");
  });
});

describe("cutting", () => {
  it("falls between characters and says how much is missing", () => {
    expect(cut("abc", 3)).toBe("abc");
    expect(cut("aü€😀", 3)).toBe("aü\n[cut: 7 bytes]");
    expect(cut("aü€😀", 5)).toBe("aü\n[cut: 7 bytes]");
    expect(cut("😀", 2)).toBe("\n[cut: 4 bytes]");
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.nat(40), (text, most) => {
        const whole = Buffer.byteLength(text);
        const [, kept = "", missing = "0"] =
          /^([^]*?)(?:\n\[cut: (\d+) bytes\])?$/.exec(cut(text, most)) ?? [];
        return (
          text.startsWith(kept) &&
          Buffer.byteLength(kept) + Number(missing) === whole &&
          (whole <= most || Buffer.byteLength(kept) <= most)
        );
      }),
    );
  });
});

describe("a message for the hook", () => {
  it("has the preset's form", () => {
    const headers = [
      { name: "from", value: "=?utf-8?q?J=C3=B6rg?= <j@example.org>" },
      { name: "To", value: "ann@example.com" },
      { name: "SUBJECT", value: "Hi\r\n there" },
    ];
    const message = mail(
      { headers },
      { snippet: "It&#39;s &lt;b&gt;", internalDate: "1767323045000", labelIds: ["INBOX"] },
    );
    expect(toMail(message, "line\r\none\u0000\u001b[2J\n", 1000)).toEqual({
      id: "m1",
      threadId: "t1",
      from: "Jörg <j@example.org>",
      to: "ann@example.com",
      subject: "Hi there",
      date: "2026-01-02T03:04:05.000Z",
      snippet: "It's <b>",
      body: "line\none[2J",
      labels: ["INBOX"],
    });
  });

  it("is cut at maxBytes, and its headers at a length of their own", () => {
    const message = mail({
      headers: [{ name: "To", value: "someone@example.com, ".repeat(5000) }],
    });
    const made = toMail(message, "é".repeat(100), 51);
    expect(made.body).toBe(`${"é".repeat(25)}\n[cut: 150 bytes]`);
    expect(Buffer.byteLength(made.to)).toBeLessThan(2050);
  });

  it("goes in batches that the gateway takes", () => {
    const message = (id: number, length: number): MailMessage =>
      toMail(mail({}, { id: String(id) }), '"'.repeat(length), 100_000);
    const sizes = (messages: MailMessage[]): number[] =>
      toBatches(messages).map((batch) => batch.length);
    expect(sizes([])).toEqual([]);
    expect(sizes(Array.from({ length: 120 }, (_, id) => message(id, 10)))).toEqual([50, 50, 20]);
    expect(sizes([message(1, 100_000), message(2, 10), message(3, 10)])).toEqual([1, 2]);
    const many = Array.from({ length: 90 }, (_, id) => message(id, 20_000));
    for (const batch of toBatches(many))
      expect(JSON.stringify({ source: "gmail", messages: batch }).length).toBeLessThan(262_144);
    expect(toBatches(many).flat()).toEqual(many);
  });
});
