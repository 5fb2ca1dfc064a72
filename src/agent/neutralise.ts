/** Characters that look like Latin ones, for the markers' letters: Cyrillic, Greek and other common look-alikes. */
const LOOK_ALIKE = new Map(
  Object.entries({
    А: "A",
    В: "B",
    С: "C",
    Е: "E",
    Н: "H",
    І: "I",
    Ј: "J",
    К: "K",
    М: "M",
    О: "O",
    Р: "P",
    Ѕ: "S",
    Т: "T",
    Х: "X",
    У: "Y",
    Ү: "Y",
    а: "a",
    с: "c",
    е: "e",
    һ: "h",
    і: "i",
    ј: "j",
    о: "o",
    р: "p",
    ѕ: "s",
    х: "x",
    у: "y",
    ԁ: "d",
    ո: "n",
    п: "n",
    т: "t",
    г: "r",
    к: "k",
    м: "m",
    н: "h",
    в: "b",
    Α: "A",
    Β: "B",
    Ε: "E",
    Ζ: "Z",
    Η: "H",
    Ι: "I",
    Κ: "K",
    Μ: "M",
    Ν: "N",
    Ο: "O",
    Ρ: "P",
    Τ: "T",
    Υ: "Y",
    Χ: "X",
    α: "a",
    ε: "e",
    ι: "i",
    κ: "k",
    ν: "v",
    ο: "o",
    ρ: "p",
    τ: "t",
    υ: "u",
    χ: "x",
    η: "n",
    "‹": "<",
    "›": ">",
    "〈": "<",
    "〉": ">",
    "⟨": "<",
    "⟩": ">",
    "《": "<<",
    "》": ">>",
    "«": "<<",
    "»": ">>",
    "≪": "<<",
    "≫": ">>",
    "❮": "<",
    "❯": ">",
    "˂": "<",
    "˃": ">",
    ᐸ: "<",
    ᐳ: ">",
    "｜": "|",
    "¦": "|",
    "∣": "|",
    "│": "|",
    ǀ: "|",
    ı: "i",
    Ꭼ: "E",
    Ꮖ: "I",
  }),
);

/** Control, zero-width, bidi, tag, soft-hyphen, variation-selector characters and combining marks are not seen. */
const UNSEEN = /^[\p{Cc}\p{Cf}\p{M}\u{FE00}-\u{FE0F}\u{E0000}-\u{E01EF}\u115F\u1160\u3164\uFFA0]$/u;
const SKIPPED = /^[\s_\u2028\u2029]$/u;

/** What must not stand in outside text, on the shadow copy: lower case, without spaces and underscores. */
const FORBIDDEN = [
  /<<(?:end)?externalcontent/g,
  /(?:end)?externalcontent[0-9a-f]{0,64}>>/g,
  /<\|[a-z0-9-]{1,40}\|>/g,
  /<\|(?:im|start|end|eot|system|user|assistant|begin|python|fim|endof)[a-z]{0,24}/g,
  /\[\/?inst\]/g,
  /<<\/?sys>>/g,
  /<\/?(?:start|end)ofturn>/g,
  /<\/?s>/g,
  /<(?:bos|eos|pad|unk)>/g,
];
/** Nearly all text holds no such sign at all; it need not be looked at closely. */
const SUSPICIOUS =
  /[<>[\]|\u00ab\u00bb\u00a6\u02c2\u02c3\u01c0\u1438\u1433\u2039\u203a\u2223\u2329\u232a\u226a\u226b\u2502\u276e\u276f\u27e8-\u27eb\u3008-\u300b\u3010\u3011\ufe3d-\ufe48\ufe64\ufe65\uff1c\uff1e\uff3b\uff3d\uff5c\u2774\u2775\u300a\u300b\u2770\u2771]/u;

interface Shadow {
  text: string;
  /** Where in the original the sign of a shadow's unit begins and ends. */
  from: number[];
  to: number[];
}

function shadowOf(original: string): Shadow {
  const shadow: Shadow = { text: "", from: [], to: [] };
  const pieces: string[] = [];
  let at = 0;
  for (const sign of original) {
    const start = at;
    at += sign.length;
    const code = sign.codePointAt(0) as number;
    const ascii = code < 0x80;
    if (ascii ? code < 0x21 || code === 0x5f || code === 0x7f : SKIPPED.test(sign) || UNSEEN.test(sign)) continue;
    const seen = ascii ? sign.toLowerCase() : fold(sign);
    for (let i = 0; i < seen.length; i++) {
      shadow.from.push(start);
      shadow.to.push(at);
    }
    pieces.push(seen);
  }
  shadow.text = pieces.join("");
  return shadow;
}

function fold(sign: string): string {
  let folded = "";
  for (const part of sign.normalize("NFKD")) {
    if (UNSEEN.test(part) || SKIPPED.test(part)) continue;
    folded += LOOK_ALIKE.get(part) ?? part;
  }
  return folded.toLowerCase();
}

/** A finding with all the angle brackets that stand beside it. */
function wholeRun(text: string, from: number, to: number): [number, number] {
  let begin = from;
  let end = to;
  while (text[begin] === "<" && text[begin - 1] === "<") begin--;
  while (text[end - 1] === ">" && text[end] === ">") end++;
  return [begin, end];
}

/**
 * Outside text in which nothing can be taken for a marker of the boundary or for a chat template's token.
 * They are looked for on a shadow copy (compatibility forms, unseen characters and look-alikes folded, spaces and
 * underscores left out) and replaced in the original by `(removed marker)`. Text without any comes back unchanged.
 */
export function neutralise(text: string): string {
  if (!SUSPICIOUS.test(text)) return text;
  const shadow = shadowOf(text);
  const spans: [number, number][] = [];
  for (const pattern of FORBIDDEN) {
    for (const found of shadow.text.matchAll(pattern)) {
      const [begin, end] = wholeRun(shadow.text, found.index, found.index + found[0].length);
      const first = shadow.from[begin];
      const last = shadow.to[end - 1];
      if (first !== undefined && last !== undefined) spans.push([first, last]);
    }
  }
  if (spans.length === 0) return text;
  spans.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  let result = "";
  let at = 0;
  for (const [from, to] of spans) {
    if (to <= at) continue;
    result += text.slice(at, Math.max(at, from)) + REPLACEMENT;
    at = to;
  }
  return result + text.slice(at);
}

const REPLACEMENT = "(removed marker)";
