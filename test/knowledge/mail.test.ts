import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { msg } from "./msg-file.ts";
import { readPassages } from "./passages.ts";
import { FIXTURES } from "./world.ts";

const readMail = async (mail: string, filename = "a.eml") => {
  const read = await readPassages(filename, mail);
  return { ...read, text: read.lines.join("\n") };
};

describe("mail with attachments", () => {
  const part = (type: string, name: string, content: string | Uint8Array, encoding = "base64") =>
    `--HERE\r\nContent-Type: ${type}\r\nContent-Disposition: attachment; filename="${name}"\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${encoding === "base64" ? Buffer.from(content).toString("base64").replaceAll(/.{76}/g, "$&\r\n") : content.toString()}\r\n`;
  let mails = 0;
  const mail = (subject: string, ...parts: string[]) => {
    const boundary = `of-${mails++}`;
    return `From: ann@example.com\r\nSubject: ${subject}\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="${boundary}"\r\n\r\n--${boundary}\r\nContent-Type: text/plain\r\n\r\nSee what is attached.\r\n${parts.join("").replaceAll("--HERE", `--${boundary}`)}--${boundary}--\r\n`;
  };

  it("is read with what they say, each by its own reader", async () => {
    const inner = mail(
      "The inner one",
      part("text/plain", "deep.txt", "The axolotl is in the inner mail."),
    );
    const { title, passages, text } = await readMail(
      mail(
        "The outer one",
        part("text/csv", "drinks.csv", "name,price\nMatcha,4.2\n"),
        part(
          "application/octet-stream",
          "list.docx",
          await readFile(join(FIXTURES, "pandoc.docx")),
        ),
        part("message/rfc822", "inner.eml", inner, "8bit"),
        part("image/png", "photo.png", Buffer.from("89504e470d0a1a0a", "hex")),
        part("application/pdf", "broken.pdf", "%PDF-1.7 cut"),
      ),
    );
    expect(title).toBe("The outer one");
    for (const said of [
      "See what is attached",
      "Matcha | 4.2",
      "Descaling takes twenty minutes",
      "The axolotl is in the inner mail",
    ])
      expect(text).toContain(said);
    expect(text).toMatch(/Attached: photo\.png \(not read: a picture cannot be read\)/);
    expect(text).toMatch(/Attached: broken\.pdf \(not read: .*damaged/);
    const drinks = passages.find((passage) => passage.text.includes("Matcha | 4.2"));
    expect(drinks?.text).toContain("Attached: drinks.csv");
  });

  it("is read with those who get a copy", async () => {
    const { text } = await readMail(
      "From: ann@example.com\r\nTo: bob@example.com\r\nCc: Vera Stone <vera@example.com>\r\nSubject: Hi\r\n\r\nNoon.\r\n",
    );
    expect(text).toContain("Cc: Vera Stone <vera@example.com>");
  });

  it("of a mailbox is a section", async () => {
    const one = (subject: string, words: string): string =>
      `From ann@example.com Fri Jul  8 12:08:34 2011\nFrom: ann@example.com\nSubject: ${subject}\n\n${words}\n\n`;
    const box = one("Pumps", "The pump is loud.\n>From noon on it is off.") + one("", "Lunch?");
    const { mimeType, text } = await readMail(box, "archive");
    expect(mimeType).toBe("application/mbox");
    expect(text).toMatch(
      /Pumps[^]*The pump is loud\.\nFrom noon on it is off\.[^]*no subject[^]*Lunch\?/,
    );
  });

  it("in each other are read three deep, and 50 of one mail", async () => {
    let nested = mail("0", part("text/plain", "secret.txt", "The pelican is too deep."));
    for (let depth = 1; depth < 5; depth++)
      nested = mail(String(depth), part("message/rfc822", `mail-${depth}.eml`, nested, "8bit"));
    const { text } = await readMail(nested);
    expect(text).not.toContain("pelican");
    expect(text).toContain("not read: it is nested too deeply");
    const many = mail(
      "many",
      ...Array.from({ length: 52 }, (_, index) =>
        part("text/plain", `n${index}.txt`, `Number ${index}.`),
      ),
    );
    expect((await readMail(many)).text.match(/not read: only 50 are read/g)).toHaveLength(2);
  });
});

it.each([
  ["names with digits", "X-MS-Office365-Filtering-Correlation-Id: 7\r\n"],
  ["more than fits", "X-MS-Exchange-Organization-Score: 1\r\n".repeat(500)],
])("a mail whose fields have %s is read as one", async (what, fields) => {
  const mail = `Received: from a\r\n${fields}From: a@b.example\r\nSubject: =?iso-8859-1?Q?Gr=FC=DFe?=\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nK=FChl und lang=\r\ne her.\r\n`;
  const { mimeType, lines } = await readPassages(`${what}.eml`, mail);
  expect(mimeType).toBe("message/rfc822");
  expect(lines).toContain("Kühl und lange her.");
});

it("a mail that does not say its character set is read, with an attachment that has no name", async () => {
  const mail = `From: a@b.example\r\nSubject: Gr\u00fc\u00dfe aus dem Hafen\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\nDie Stra\u00dfe ist f\u00fcr alle gesperrt.\r\n--B\r\nContent-Type: text/csv\r\nContent-Disposition: attachment\r\n\r\nKelp\r\n--B--\r\n`;
  const { lines } = await readPassages("a.eml", Buffer.from(mail, "latin1"));
  expect(lines).toEqual([
    "Grüße aus dem Hafen",
    "From: <a@b.example>",
    "Die Straße ist für alle gesperrt.",
    "Attached: file-1",
    "Kelp",
  ]);
});

it.each(["us-ascii", "unknown-8bit"])(
  "a mail in UTF-8 that says %s is read as UTF-8",
  async (charset) => {
    const mail = `From: a@b.example\r\nContent-Type: text/plain; charset="${charset}"\r\n\r\nKöln\r\n`;
    expect((await readMail(mail)).lines.at(-1)).toBe("Köln");
  },
);

it("a mail whose text is only a hint to look at its page is read by the page", async () => {
  const part = (type: string, text: string): string =>
    `--B\r\nContent-Type: ${type}\r\n\r\n${text}\r\n`;
  const page =
    "<h1>Harbour news</h1><p>The crane is repaired until May, and the north gate is closed.</p>";
  const mail = `From: a@b.example\r\nContent-Type: multipart/alternative; boundary=B\r\n\r\n${part("text/plain", "View this mail in a browser.")}${part("text/html", page)}--B--\r\n`;
  expect((await readPassages("a.eml", mail)).lines.slice(1)).toEqual([
    "Harbour news",
    "The crane is repaired until May, and the north gate is closed.",
  ]);
});

it.each<[what: string, fields: string, body: string, lines: string[]]>([
  [
    "is not in the UTF-8 that it names",
    "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable",
    "Die Stra=DFe ist f=FCr alle.",
    ["Die Straße ist für alle."],
  ],
  [
    "is in UTF-8 although it names another character set",
    "Subject: =?iso-8859-1?Q?Gr=C3=BC=C3=9Fe?=\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable",
    "Die Stra=C3=9Fe, =C3=84=E2=80=93=C3=96.",
    ["Grüße", "Die Straße, Ä–Ö."],
  ],
  [
    "is an invitation alone",
    "Content-Type: text/calendar",
    "BEGIN:VCALENDAR\r\nSUMMARY:Crane\\, re\r\n pair\\nat noon\r\nEND:VCALENDAR",
    ["Attached: file-1", "BEGIN:VCALENDAR", "SUMMARY:Crane, repair at noon", "END:VCALENDAR"],
  ],
  [
    "is laid out by tables, with lines that are not seen",
    "Content-Type: text/html",
    `<div style="display:none">Preview &zwnj; &zwnj;</div><table><tr><td><table><tr><td><h1>News</h1><p>One &zwnj;</p><p>Two</p></td></tr></table></td></tr></table><table><tr><th>Berth</th><th>Fee</th></tr><tr><td>North</td><td>12</td></tr></table>`,
    ["News", "One", "Two", "Berth | Fee", "North | 12"],
  ],
  [
    "goes to a group of people",
    "To: Crew: ada@b.example, bo@b.example;",
    "Noon.",
    ["To: Crew <ada@b.example>, <bo@b.example>", "Noon."],
  ],
  [
    "came back, and is signed",
    "Content-Type: multipart/report; boundary=B",
    "--B\r\n\r\nFailed.\r\n--B\r\nContent-Type: message/delivery-status\r\n\r\nStatus: 5.1.1\r\n--B\r\nContent-Type: application/pgp-signature; name=a.asc\r\n\r\niQEz\r\n--B--",
    ["Failed.", "Attached: file-1", "Status: 5.1.1"],
  ],
])("a mail that %s is read", async (_what, fields, body, lines) => {
  const mail = `\ufeffFrom: a@b.example\r\n${fields}\r\n\r\n${body}\r\n`;
  const read = (await readPassages("a.eml", mail)).lines;
  expect(read.filter((line) => line !== "From: <a@b.example>")).toEqual(lines);
});

it("a mail whose text says that it needs HTML is read by a page that is short", async () => {
  const mail = `From: a@b.example\r\nContent-Type: multipart/alternative; boundary=B\r\n\r\n--B\r\n\r\nThis mail needs HTML.\r\n--B\r\nContent-Type: text/html\r\n\r\n<p>Noon.</p>\r\n--B--\r\n`;
  expect((await readPassages("a.eml", mail)).lines.slice(1)).toEqual(["Noon."]);
});

it("an Outlook mail is read with its attachments", async () => {
  const file = msg({
    subject: "Berths – 港口",
    text: "The tug comes on Thursday.",
    from: { name: "Ada", address: "ada@example.com" },
    to: { name: "Bo", address: "bo@example.com" },
    attachments: [
      { name: "fees.csv", content: Buffer.from("berth,fee\nNorth,12\n") },
      { name: "plan.zip", content: Buffer.from("PK\u0003\u0004 nothing") },
    ],
  });
  const { passages } = await readPassages("berths.msg", file);
  for (const part of [
    "Berths – 港口",
    "From: Ada <ada@example.com>",
    "To: Bo <bo@example.com>",
    "The tug comes on Thursday.",
    "Attached: fees.csv",
    "North | 12",
    "Attached: plan.zip (not read: ",
  ])
    expect(passages[0]?.text).toContain(part);
});
