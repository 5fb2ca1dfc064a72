/** Links and recipients in a turn that only text from outside has named. */
import { decodeHTML } from "entities/decode";
import { isAllowedHost } from "../agent/reply/links.ts";
import type { Config } from "../config/schema/index.ts";

/** Hosts of links, and recipients: e-mail addresses, telephone numbers and names on a channel, in a form that can be compared. */
interface Reach {
  hosts: Set<string>;
  recipients: Set<string>;
}

/** An authority or an address that is longer is none. */
const MAX_LENGTH = 512;
const LINK_START = /(?:https?|ftps?|wss?):\/*|\/{2,}|\bwww\./gi;
const HOST = /^(?:\[[\da-f:.]+\]|[\p{L}\p{M}\p{N}._\u3002\uff61-]+)/iu;
const LOCAL = /[\p{L}\p{M}\p{N}.!#$%&'*+/=?^_`{|}~-]/u;
const WORD = /[\p{L}\p{M}\p{N}._\u3002\uff61-]+/gu;
/** Ends of file names that are no top-level domain of IANA's root zone: `report.txt` is no host, while `setup.sh` may be one. */
const FILE_NAME =
  /\.(?:txt|pdf|json|jsonl|csv|tsv|docx?|xlsx?|pptx?|od[tsp]|rtf|xml|html?|ya?ml|toml|ini|cfg|conf|log|png|jpe?g|gif|svg|webp|bmp|tiff?|heic|mp3|mp4|wav|avi|mkv|webm|tar|gz|tgz|bz2|xz|7z|rar|exe|dll|jsx?|tsx?|css|scss|sql|db|bak|tmp|java|jar|cpp|hpp|rb|php|ics|eml|msg)$/;
const TOP_LEVEL = /\.(?:[\p{L}\p{M}]{2,}|xn--[a-z\d-]+)$/u;
const PHONE = /(?<![\p{L}\p{N}])(?:\+|00)\d[\d \t().-]{5,28}/gu;
const NUMBER = /\d[\d \t().-]{3,28}/g;
const NAME = /(?<![\p{L}\p{N}])[@#][\p{L}\p{N}][\p{L}\p{N}._-]{0,80}/gu;
/** Arguments whose whole value is a recipient. */
const RECIPIENT_KEY =
  /^(?:to|cc|bcc|recipients?|phone(?:number)?|channel(?:id)?|chat(?:id)?|user(?:id)?|number)$/;
const DIGITS_ONLY = /^\+?[\d \t().-]{5,30}$/;

/** Returns the ASCII form of a host as links have it; undefined if it is none that leads outside. */
function toHost(text: string): string | undefined {
  try {
    const host = new URL(`http://${text}`).hostname.replace(/\.+$/, "");
    return host.includes(".") || host.startsWith("[") ? host : undefined;
  } catch {
    return undefined;
  }
}

const decodeRun = (run: string): string => {
  try {
    return decodeURIComponent(run);
  } catch {
    return run;
  }
};
const decode = (text: string): string => decodeHTML(text).replace(/(?:%[\da-f]{2})+/gi, decodeRun);

/** The readings of a text: as it is, and without one and two layers of encoding. Invisible characters are gone. */
function getReadings(text: string): Set<string> {
  const plain = text
    .replace(/\p{Cf}/gu, "")
    .normalize("NFKC")
    .replaceAll("\\", "/");
  const once = decode(plain);
  return new Set([plain, once, decode(once)]);
}

function addLinks(text: string, hosts: Set<string>): void {
  for (const { 0: start, index } of text.matchAll(LINK_START)) {
    const at = start.toLowerCase() === "www." ? index : index + start.length;
    const [authority = ""] = text.slice(at, at + MAX_LENGTH).split(/[\s/?#<>"]/, 1);
    const host = toHost(HOST.exec(authority.slice(authority.lastIndexOf("@") + 1))?.[0] ?? "");
    if (host !== undefined) hosts.add(host);
  }
}

function getLocal(text: string, at: number): string {
  let start = at;
  while (start > 0 && at - start < 64 && LOCAL.test(text[start - 1] as string)) start--;
  return text.slice(start, at).replace(/^.*[?&](?:to|cc|bcc)=/i, "");
}

/** Adds e-mail addresses. With `isGenerous` also those that begin after a mark of the text around them. */
function addMail(text: string, recipients: Set<string>, isGenerous: boolean): void {
  for (let at = text.indexOf("@"); at >= 0; at = text.indexOf("@", at + 1)) {
    const before = text[at - 1] ?? "";
    const isQuoted = before === '"';
    if (!isQuoted && !LOCAL.test(before)) continue;
    const domain = HOST.exec(text.slice(at + 1, at + 1 + MAX_LENGTH))?.[0] ?? "";
    if (!/[.\u3002\uff61[]/.test(domain)) continue;
    const host = toHost(domain.replace(/[.-]+$/, ""));
    // The domain of a version (`package@1.2.3`) reads as a number.
    if (host === undefined || (/^[\d.]+$/.test(host) && !domain.startsWith("["))) continue;
    const local = isQuoted ? '"' : getLocal(text, at).toLowerCase();
    // A text before the host of a link is no mailbox.
    if (local.includes("//")) continue;
    recipients.add(`${local.replace(/^[^\p{L}\p{N}"]+/u, "")}@${host}`);
    if (isGenerous)
      for (const { index } of local.matchAll(/[*_'`=/|{]/g))
        recipients.add(`${local.slice(index + 1)}@${host}`);
  }
}

const toDigits = (text: string): string => text.replace(/\D/g, "").replace(/^00/, "");

function addNumbers(text: string, pattern: RegExp, recipients: Set<string>): void {
  for (const [found] of text.matchAll(pattern)) {
    const digits = toDigits(found);
    if (digits.length >= 5) recipients.add(digits);
  }
}

/** Adds the names in a text with consent: everything that may be meant by it, such as a host without a scheme. */
function addNamed(text: string, { hosts, recipients }: Reach): void {
  for (const reading of getReadings(text)) {
    addLinks(reading, hosts);
    addMail(reading, recipients, true);
    addNumbers(reading, NUMBER, recipients);
    for (const [name] of reading.matchAll(NAME))
      recipients.add(name.toLowerCase().replace(/[.-]+$/, ""));
    for (const [word] of reading.matchAll(WORD)) {
      const host = word.length <= MAX_LENGTH && word.includes(".") ? toHost(word) : undefined;
      if (host !== undefined) hosts.add(host);
    }
  }
}

/**
 * Adds the recipients and hosts that a text would reach; `key` is the argument that holds it. `isSeen` says whether a
 * word stands in outside text.
 */
function addReached(
  text: string,
  { hosts, recipients }: Reach,
  { key = "", isSeen }: { key?: string; isSeen(word: string): boolean },
): void {
  const isRecipient = RECIPIENT_KEY.test(key.toLowerCase().replace(/[^a-z]/g, ""));
  for (const reading of getReadings(text)) {
    addLinks(reading, hosts);
    addMail(reading, recipients, false);
    addNumbers(reading, PHONE, recipients);
    const whole = reading.trim();
    if (isRecipient && DIGITS_ONLY.test(whole)) addNumbers(whole, NUMBER, recipients);
    if (isRecipient && whole.length <= MAX_LENGTH)
      for (const [name] of whole.matchAll(NAME))
        if (name === whole) recipients.add(name.toLowerCase());
    // A host without a scheme looks like a file or the end of a sentence: it counts if outside text has it.
    for (const { 0: word, index } of reading.matchAll(WORD)) {
      if (
        word.length > MAX_LENGTH ||
        !word.includes(".") ||
        reading[index - 1] === "@" ||
        reading[index + word.length] === "@"
      )
        continue;
      const host = toHost(word);
      if (
        host !== undefined &&
        TOP_LEVEL.test(host) &&
        !FILE_NAME.test(host) &&
        !hosts.has(host) &&
        isSeen(word.toLowerCase().replace(/[.-]+$/, ""))
      )
        hosts.add(host);
    }
  }
}

/** Adds what the arguments of a call would reach, keys included. */
function addReachedByInput(input: unknown, found: Reach, isSeen: (word: string) => boolean): void {
  const open: { value: unknown; key: string }[] = [{ value: input, key: "" }];
  for (let next = open.pop(); next; next = open.pop()) {
    const { value, key } = next;
    if (typeof value === "string" || typeof value === "number")
      addReached(String(value), found, { key, isSeen });
    else if (Array.isArray(value)) for (const item of value) open.push({ value: item, key });
    else if (typeof value === "object" && value !== null)
      for (const [name, item] of Object.entries(value))
        open.push({ value: name, key: "" }, { value: item, key: name });
  }
}

/** Returns whether a text is one address, or one link, and nothing else. */
function isLoneAddress(text: string): boolean {
  const whole = text.trim();
  if (
    whole === "" ||
    whole.length > MAX_LENGTH ||
    /\s/.test(whole.replace(/^[^<>@]{0,100}<([^<>\s]+)>$/, "$1"))
  )
    return false;
  const found = newReach();
  addReached(whole, found, { key: "to", isSeen: () => false });
  return found.hosts.size + found.recipients.size === 1;
}

/** Most hosts that a warning names. */
const MAX_NAMED = 10;

const newReach = (): Reach => ({ hosts: new Set(), recipients: new Set() });

/** The words that the model of a turn sees, divided by who has said them. */
export interface SeenWords {
  /** Those of the operator, the owner and the API's caller. */
  named: readonly string[];
  /** Fields that the operator's template shows by themselves. */
  shown: readonly string[];
  /** All else, as one text. */
  outside(): string;
}

/** Collects the addresses in `texts`, and those that the operator's template shows by themselves. */
function collectNamed(texts: readonly string[], shown: readonly string[]): Reach {
  const named = newReach();
  for (const text of [...texts, ...shown.filter(isLoneAddress)]) addNamed(text, named);
  return named;
}

/**
 * Finds links and recipients that the operator, the owner and the caller have not named. `divide` is called if there are any;
 * `operator` are texts of the config that the model gets. A field that the operator's template shows by itself, and that is an address and
 * nothing else, counts as named by the template.
 */
export function createOutsideWords(
  divide: () => SeenWords,
  operator: readonly string[],
  { hooks }: Pick<Config, "hooks">,
) {
  // Most turns reach nothing: then nothing of what they have seen is searched.
  let words: SeenWords | undefined;
  const getWords = (): SeenWords => (words ??= divide());
  let known: Reach | undefined;
  const getNamed = (): Reach =>
    (known ??= collectNamed([...operator, ...getWords().named], getWords().shown));
  let seen: string | undefined;
  const isSeen = (word: string): boolean =>
    (seen ??= getWords().outside().normalize("NFKC").toLowerCase()).includes(word);
  const keepUnnamed = ({ hosts, recipients }: Reach): Reach => ({
    hosts: new Set(
      [...hosts].filter(
        (host) => !getNamed().hosts.has(host) && !isAllowedHost(host, hooks.allowedLinkHosts ?? []),
      ),
    ),
    recipients: new Set([...recipients].filter((one) => !getNamed().recipients.has(one))),
  });
  return {
    inCall(input: unknown): Reach {
      const found = newReach();
      addReachedByInput(input, found, isSeen);
      return keepUnnamed(found);
    },
    inReply(text: string): string[] {
      const found = newReach();
      addReached(text, found, { isSeen });
      return [...keepUnnamed(found).hosts];
    },
  };
}

/** Names hosts in a warning: never more of a link than its host. */
export function renderHosts(hosts: readonly string[]): string {
  const more = hosts.length - MAX_NAMED;
  return hosts.slice(0, MAX_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
