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
/** Where alphabets of white letters on black, and of flags, begin. */
const ALPHABETS = [0x1f150, 0x1f170, 0x1f1e6];

/** Not seen, or seen as a gap: control, format and other signs without a shape, marks, spaces, underscores. */
const UNSEEN = /[\p{C}\p{M}\p{Z}\p{DI}\s\u2581\u2800_]/u;
const ASCII = /^[\x21-\x7e]+$/;
const MAX_KEPT = 20_000;

const isSingle = (text: string): boolean =>
  text.length === 1 || (text.length === 2 && (text.codePointAt(0) as number) > 0xffff);

/** What a sign is hard to tell from, without marks. */
function getPrototype(sign: string, table: Table): string {
  const prototype = table[sign] ?? sign;
  if (ASCII.test(prototype)) return prototype;
  return [...prototype.normalize("NFKD")].filter((part) => !UNSEEN.test(part)).join("");
}

/** How signs read, and which signs may stand for a letter. */
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
export function getReadings(): Readings {
  made ??= createReadings(require("unhomoglyph/data.json") as Table);
  return made;
}
