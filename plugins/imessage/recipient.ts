type Parsed = { ok: true; to: string } | { ok: false; message: string };

/** How a chat's guid looks: its service, `-` for one person or `+` for a group, and who or which. */
const CHAT = /^chat:((?:iMessage|SMS|RCS|any);[-+];\S{1,200})$/;

/** `+15551234567`, an e-mail address, or `chat:<guid>`, in the one way in which each is written. */
export function parseRecipient(to: string): Parsed {
  const text = to.trim();
  if (/^chat:/i.test(text)) {
    const chat = text.replace(/^chat:/i, "chat:");
    return CHAT.test(chat)
      ? { ok: true, to: chat }
      : { ok: false, message: "a chat is `chat:` and its guid, like chat:iMessage;+;chat123456" };
  }
  const address = addressOf(text);
  return address === undefined
    ? { ok: false, message: "must be +15551234567 (with the country's code), an e-mail address or chat:<guid>" }
    : { ok: true, to: address };
}

/** A person's address as it is compared: a number without its decoration, or an e-mail address in small letters. */
export function addressOf(text: string): string | undefined {
  if (/^[^\s@;,:]+@[^\s@;,:]+\.[^\s@;,:.]+$/.test(text)) return text.toLowerCase();
  const digits = text.replace(/[\s().-]/g, "");
  return /^\+[1-9]\d{6,14}$/.test(digits) ? digits : undefined;
}

/** The guid of a recipient that is a chat. */
export function chatOf(to: string): string | undefined {
  return CHAT.exec(to)?.[1];
}
