/** The line before each mail of a mailbox: a sender and a date (RFC 4155). */
export const MAIL_START = /^From \S+ .*\d\d:\d\d.*\d{4}.*\r?\n/m;

/** The mails of a mailbox, as their bytes. A line of a mail that begins like that line has a `>` before it. */
export function* splitMailbox(bytes: Buffer): Generator<Buffer> {
  // One character for each byte: mails have different character sets.
  const text = bytes.toString("latin1");
  const starts = [...text.matchAll(new RegExp(MAIL_START, "gm"))];
  for (const [index, { 0: line, index: at }] of starts.entries()) {
    const mail = text.slice(at + line.length, starts[index + 1]?.index);
    yield Buffer.from(mail.replace(/^>(>*From )/gm, "$1"), "latin1");
  }
}
