import { createRequire } from "node:module";

const require = createRequire(import.meta.url);

/** The `confusables` of Unicode (UTS 39): a sign, and what it is hard to tell from. */
type Table = Readonly<Record<string, string>>;

/** Signs that are read as these, though UTS 39 keeps them apart or takes a bar for a letter. */
const READ_AS: Readonly<Record<string, string>> = {
  "<": "❬〈⟨❰⦑⦓⧼",
  "<<": "«《⟪",
  ">": "❭〉⟩❱⦒⦔⧽",
  ">>": "»》⟫",
  "[": "〔【〖〚⟦❲⁅",
  "]": "〕】〗〛⟧❳⁆",
  "|": "¦∣│┃╎ǀ❘❙❚⏐⏽",
  l: "ʟ",
  n: "ɴп",
};
/** The first signs of alphabets of white letters on black, and of flags. */
const ALPHABETS = [0x1f150, 0x1f170, 0x1f1e6];

/** Not seen, or seen as a gap: control, format and other signs without a shape, marks, spaces, underscores. */
const UNSEEN = /[\p{C}\p{M}\p{Z}\p{DI}\s\u2581\u2800_]/u;
const ASCII = /^[\x21-\x7e]+$/;
const MAX_KEPT = 20_000;

const isSingle = (text: string): boolean =>
  text.length === 1 || (text.length === 2 && (text.codePointAt(0) as number) > 0xffff);

/** Returns the sign that a sign is hard to distinguish from, without marks. */
function getPrototype(sign: string, table: Table): string {
  const prototype = table[sign] ?? sign;
  if (ASCII.test(prototype)) return prototype;
  return [...prototype.normalize("NFKD")].filter((part) => !UNSEEN.test(part)).join("");
}

/** The readings of signs, and the signs that may stand for a letter. */
interface Readings {
  /** The sign in lower-case ASCII; as it is if it reads as none or as several; empty if it is not seen. */
  read(sign: string): string;
  /** A regular expression (`u`) for a word of lower-case letters and digits, in what `read` returns. */
  word(text: string): string;
}

/** Groups the signs that are not ASCII by look and by case: `т` looks like `ᴛ`, and is `Т` in lower case, which looks like `T`. */
function groupSigns(prototypes: ReadonlyMap<string, string>): Map<string, Set<string>> {
  const groups = new Map<string, Set<string>>();
  const join = (one: string, other: string): void => {
    if (ASCII.test(other) || !isSingle(other)) return;
    const group = groups.get(one) ?? new Set([one]);
    const joined = groups.get(other) ?? new Set([other]);
    if (group === joined && groups.has(one)) return;
    for (const sign of joined) group.add(sign);
    for (const sign of group) groups.set(sign, group);
  };
  for (const [sign, prototype] of prototypes) {
    if (ASCII.test(sign)) continue;
    join(sign, prototype);
    const lower = sign.toLowerCase();
    const upper = sign.toUpperCase();
    if (lower !== sign) join(sign, lower);
    if (upper !== sign) join(sign, upper);
  }
  return groups;
}

/** The readings of the signs that are not ASCII themselves and have any. */
function findReadings(table: Table): Map<string, Set<string>> {
  const prototypes = new Map(Object.keys(table).map((sign) => [sign, getPrototype(sign, table)]));
  const groups = groupSigns(prototypes);
  const readings = new Map<string, Set<string>>();
  for (const sign of [...prototypes.keys(), ...groups.keys()]) {
    if (ASCII.test(sign)) continue;
    const looks = [...(groups.get(sign) ?? [sign])]
      .map((one) => prototypes.get(one) ?? "")
      .filter((look) => ASCII.test(look));
    if (looks.length > 0) readings.set(sign, new Set(looks.map((look) => look.toLowerCase())));
  }
  for (const [reading, signs] of Object.entries(READ_AS))
    for (const sign of signs) readings.set(sign, new Set([reading]));
  for (const start of ALPHABETS)
    for (let at = 0; at < 26; at++)
      readings.set(String.fromCodePoint(start + at), new Set([String.fromCharCode(0x61 + at)]));
  return readings;
}

/** The ASCII signs, in lower case, that are hard to tell from a letter: `1`, `i`, `l` and `|` from each other. */
function findAsciiAlike(letter: string, table: Table): string[] {
  const getPrototypes = (sign: string): string[] =>
    [sign, sign.toUpperCase()].map((one) => getPrototype(one, table).toLowerCase());
  const wanted = getPrototypes(letter);
  const printable = Array.from({ length: 0x5e }, (_, index) =>
    String.fromCharCode(0x21 + index).toLowerCase(),
  );
  return printable.filter((sign) => getPrototypes(sign).some((look) => wanted.includes(look)));
}

const inClass = (sign: string): string => sign.replace(/[\\\]^|-]/, "\\$&");

function createReadings(table: Table): Readings {
  const readings = findReadings(table);
  const ambiguous = [...readings].filter(
    ([sign, found]) => found.size > 1 && !ASCII.test(sign.normalize("NFKD")) && !UNSEEN.test(sign),
  );
  const kept = new Map<string, string>();

  const readPart = (part: string): string => {
    if (UNSEEN.test(part)) return "";
    const found = ASCII.test(part) ? undefined : readings.get(part);
    return found?.size === 1 ? ([...found][0] as string) : part.toLowerCase();
  };
  const classes = new Map<string, string>();
  const toClass = (letter: string): string => {
    const known = classes.get(letter);
    if (known !== undefined) return known;
    const alike = ambiguous
      .filter(([, found]) => found.has(letter))
      .map(([sign]) => sign.toLowerCase());
    const signs = `[${[...new Set([letter, ...findAsciiAlike(letter, table), ...alike])].map(inClass).join("")}]`;
    classes.set(letter, signs);
    return signs;
  };
  return {
    read(sign) {
      const known = kept.get(sign);
      if (known !== undefined) return known;
      const plain = sign.normalize("NFKD");
      // A form of an ASCII sign is that sign. Other forms may look like ASCII when what they are made of does not: Ϲ is a form of Σ.
      const parts = !ASCII.test(plain) && readings.has(sign) ? [sign] : [...plain];
      const read = parts.map(readPart).join("");
      // A hostile sender uses every sign there is.
      if (kept.size >= MAX_KEPT) kept.clear();
      kept.set(sign, read);
      return read;
    },
    word: (text) =>
      text.replace(/rn|m|[a-z0-9]/g, (part) =>
        part === "rn" || part === "m" ? `(?:${toClass("r")}${toClass("n")}|m)` : toClass(part),
      ),
  };
}

let made: Readings | undefined;

/** Returns how signs read. The table is loaded when it is first needed: a gateway's start does without it. */
function getReadings(): Readings {
  made ??= createReadings(require("unhomoglyph/data.json") as Table);
  return made;
}

/** Text without any of these signs, in which all is ASCII, holds nothing that is looked for. */
const SUSPICIOUS = /[<>[\]]|[^\0-\x7f]/;
const BRACKET = /[<>[\]]/;
const REPLACEMENT = "(removed marker)";

/** A pattern for what must not stand in outside text. */
interface Forbidden {
  pattern: RegExp;
  /** Places of a gap in other text: none; or only beside an underscore, so that `[tool calls]` stays a link. */
  gaps?: "none" | "with underscore";
}

const OPENERS =
  "im|start|end|eot|eom|system|user|assistant|begin|python|fim|header|tool|function|observation|channel|message|call|return|constrain|vision|image|audio|dsml|reserved|think|turn";
const BRACKETED =
  "inst|systemprompt|toolcalls|toolresults|availabletools|toolcontent|callid|think|gmask";
const TAGS =
  "startofturn|endofturn|startofimage|endofimage|s|bos|eos|pad|unk|bostoken|eostoken|padtoken|unktoken|think|sop|eop";
const CALLS =
  "toolcall|toolcalls|toolresponse|toolresult|toolresults|functioncall|functioncalls|functionresult|functionresults";

/**
 * The markers of the boundary, and the tokens with which chat templates part a conversation: ChatML and its kin, Llama,
 * Mistral, Gemma, DeepSeek, Qwen, Phi, Command, GLM, gpt-oss and others. Matched against what the text reads as.
 */
function buildForbidden(): Forbidden[] {
  const { word } = getReadings();
  const words = (list: string): string => `(?:${list.split("|").map(word).join("|")})`;
  const pattern = (source: string): RegExp => new RegExp(source, "gu");
  const between = "[^\\p{L}\\p{N}<>]{0,3}";
  const marker = `(?:${word("end")}${between})?${word("external")}${between}${word("content")}`;
  return [
    { pattern: pattern(`<[^\\p{L}\\p{N}<>]{0,8}${marker}(?:${between}[0-9a-f]{0,64}>)?`) },
    {
      pattern: pattern(
        `${marker}${between}(?:[0-9a-f]{16,64}${between}>|[0-9a-f]{0,64}${between}>>)`,
      ),
    },
    { pattern: pattern(`<\\/?\\|${words(OPENERS)}[\\p{L}\\p{N}]{0,40}\\|>`) },
    { pattern: pattern(`<\\/?\\|${words(OPENERS)}`), gaps: "none" },
    { pattern: pattern("<\\/?\\|[\\p{L}\\p{N}:.\"'|-]{1,60}>"), gaps: "none" },
    { pattern: pattern("<\\/?[\\p{L}\\p{N}:.\"'-]{1,40}\\|>"), gaps: "none" },
    { pattern: pattern("\\[\\|[\\p{L}\\p{N}]{1,40}\\|\\]"), gaps: "none" },
    { pattern: pattern(`\\[\\/?${words(BRACKETED)}\\]`), gaps: "with underscore" },
    { pattern: pattern(`<<\\/?${word("sys")}>>`) },
    { pattern: pattern(`<\\/?${words(TAGS)}>`) },
    { pattern: pattern(`<\\/?(?:[a-z]{1,20}:)?${words(CALLS)}(?:[^<>]{0,100}>)?`) },
    { pattern: pattern(`<(?:${word("function")}|${word("parameter")})=(?:[^<>]{0,100}>)?`) },
    { pattern: pattern(`<(?:${word("special")}|${word("extraid")})[0-9]{1,4}>`) },
    { pattern: pattern("\\]~!?b[[\\]]|\\[e~\\["), gaps: "none" },
  ];
}

/** Renders a text as it reads, with the place in the text that each unit of it comes from. */
function createShadow(original: string) {
  const { read } = getReadings();
  const pieces: string[] = [];
  const starts: number[] = [];
  const ends: number[] = [];
  let at = 0;
  for (const sign of original) {
    const start = at;
    at += sign.length;
    const seen = read(sign);
    for (let unit = 0; unit < seen.length; unit++) {
      starts.push(start);
      ends.push(at);
    }
    pieces.push(seen);
  }
  return { text: pieces.join(""), from: Uint32Array.from(starts), to: Uint32Array.from(ends) };
}

/** A finding with all the angle brackets that stand beside it. */
function widen(text: string, from: number, to: number): [number, number] {
  let begin = from;
  let end = to;
  while (text[begin] === "<" && text[begin - 1] === "<") begin--;
  while (text[end - 1] === ">" && text[end] === ">") end++;
  return [begin, end];
}

function isToken(original: string, gaps: Forbidden["gaps"]): boolean {
  if (gaps === undefined || !/\s/.test(original)) return true;
  return (
    gaps === "with underscore" &&
    (original.normalize("NFKC").includes("_") || !/[\p{L}\p{N}]\s+[\p{L}\p{N}]/u.test(original))
  );
}

let forbidden: Forbidden[] | undefined;

/** Finds the spans of a text that must not stand in it, in order. */
function findSpans(text: string): [number, number][] {
  const shadow = createShadow(text);
  if (!BRACKET.test(shadow.text)) return [];
  forbidden ??= buildForbidden();
  const spans: [number, number][] = [];
  for (const { pattern, gaps } of forbidden) {
    for (const found of shadow.text.matchAll(pattern)) {
      const last = found.index + found[0].length;
      if (!isToken(text.slice(shadow.from[found.index], shadow.to[last - 1]), gaps)) continue;
      const [begin, end] = widen(shadow.text, found.index, last);
      spans.push([shadow.from[begin] as number, shadow.to[end - 1] as number]);
    }
  }
  return spans.sort((one, other) => one[0] - other[0] || other[1] - one[1]);
}

/**
 * Outside text in which nothing can be taken for a marker of the boundary or for a chat template's token. They are looked
 * for in what the text reads as: look-alikes and compatibility forms folded, signs that are not seen, spaces and underscores
 * left out. Each is replaced by `(removed marker)`. Text without any comes back unchanged.
 */
export function neutralise(text: string): string {
  if (!SUSPICIOUS.test(text)) return text;
  const pieces: string[] = [];
  let at = 0;
  for (const [from, to] of findSpans(text)) {
    if (to <= at) continue;
    // Findings that overlap are one.
    if (from >= at) pieces.push(text.slice(at, from), REPLACEMENT);
    at = to;
  }
  return pieces.length === 0 ? text : pieces.join("") + text.slice(at);
}
