const TOKEN = "HEARTBEAT_OK";
/** Markup or punctuation that may stand around the token: at most four marks on each side. */
const MARKS = "[*_~`\"'.!,;:()\\[\\]<>#-]";
const AT_START = new RegExp(
  `^\\s*(?:<b>|<strong>|<code>|${MARKS}){0,4}\\s*${TOKEN}(?:</b>|</strong>|</code>|${MARKS}){0,4}(?=\\s|$)`,
);
const AT_END = new RegExp(
  `(?<=\\s|^)(?:<b>|<strong>|<code>|${MARKS}){0,4}${TOKEN}(?:</b>|</strong>|</code>|${MARKS}){0,4}\\s*$`,
);

function withoutToken(reply: string): { found: boolean; text: string } {
  const started = reply.replace(AT_START, "");
  const text = started.replace(AT_END, "");
  return { found: text.length !== reply.length, text: text.trim() };
}

/**
 * Tells whether a heartbeat's reply is only an acknowledgement: HEARTBEAT_OK at the start or the end, with at most
 * `ackMaxChars` of other text. Otherwise `text` is the reply without the token.
 */
export function parseAck(
  reply: string,
  ackMaxChars: number,
): { acknowledged: boolean; text: string } {
  const { found, text } = withoutToken(reply);
  if (!found) return { acknowledged: false, text: reply };
  return { acknowledged: text.length <= ackMaxChars, text };
}

/** A hook run's reply without the token; empty if the reply was only the token. */
export function stripAck(reply: string): string {
  const { found, text } = withoutToken(reply);
  return found ? text : reply;
}
