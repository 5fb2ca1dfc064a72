/**
 * Porter's stemmer for English (M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980), with the
 * choices that SQLite's FTS5 makes: both indexes find the same.
 */
const LONGEST = 64;
const SHORTEST = 3;
const VOWELS = "aeiou";

/** The longest of the endings that fits decides, also where its condition does not hold. */
type Rules = readonly (readonly [ending: string, instead: string])[];

const byLength = (rules: Rules): Rules => rules.toSorted(([a], [b]) => b.length - a.length);
const pairs = (text: string): Rules =>
  byLength(
    text.split(" ").map((pair) => {
      const [ending = "", instead = ""] = pair.split(">");
      return [ending, instead] as const;
    }),
  );

const STEP_2 = pairs(
  "ational>ate tional>tion enci>ence anci>ance izer>ize logi>log bli>ble alli>al entli>ent eli>e ousli>ous ization>ize ation>ate " +
    "ator>ate alism>al iveness>ive fulness>ful ousness>ous aliti>al iviti>ive biliti>ble",
);
const STEP_3 = pairs("icate>ic ative> alize>al iciti>ic ical>ic ful> ness>");
const STEP_4 = pairs("al> ance> ence> er> ic> able> ible> ant> ement> ment> ent> ion> ou> ism> ate> iti> ous> ive> ize>");

/** Which letters are consonants. A "y" is a vowel after a consonant. */
function consonants(stem: string): boolean[] {
  let before = false;
  return Array.from(stem, (letter) => (before = !(VOWELS.includes(letter) || (letter === "y" && before))));
}

/** How often consonants follow vowels. */
function measure(stem: string): number {
  let count = 0;
  let before = true;
  for (const consonant of consonants(stem)) {
    if (consonant && !before) count++;
    before = consonant;
  }
  return count;
}

const hasVowel = (stem: string): boolean => /[aeiou]|.y/.test(stem);
const endsDouble = (stem: string): boolean => /(.)\1$/.test(stem) && !/[aeiou]$/.test(stem);
/** Consonant, vowel, consonant, the last none of w, x and y. */
const endsShort = (stem: string): boolean => !/[wxy]$/.test(stem) && consonants(stem).slice(-3).join() === "true,false,true";

function replace(word: string, rules: Rules, least: number): string {
  for (const [ending, instead] of rules) {
    if (!word.endsWith(ending) || word.length === ending.length) continue;
    const stem = word.slice(0, -ending.length);
    if (ending === "ion" && !/[st]$/.test(stem)) return word;
    return measure(stem) > least ? stem + instead : word;
  }
  return word;
}

function plural(word: string): string {
  if (!word.endsWith("s") || word.endsWith("ss")) return word;
  return /.sses$|.ies$/.test(word) ? word.slice(0, -2) : word.slice(0, -1);
}

function past(word: string): string {
  if (word.endsWith("eed")) return word.length > 3 && measure(word.slice(0, -3)) > 0 ? word.slice(0, -1) : word;
  const stem = /^.+(?=ed$)/.exec(word)?.[0] ?? /^.+(?=ing$)/.exec(word)?.[0];
  if (stem === undefined || !hasVowel(stem)) return word;
  if (/(?:at|bl|iz)$/.test(stem)) return `${stem}e`;
  if (endsDouble(stem)) return /[lsz]$/.test(stem) ? stem : stem.slice(0, -1);
  return measure(stem) === 1 && endsShort(stem) ? `${stem}e` : stem;
}

function lastLetters(word: string): string {
  let stem = word;
  if (stem.endsWith("e")) {
    const short = stem.slice(0, -1);
    const count = measure(short);
    if (count > 1 || (count === 1 && !endsShort(short))) stem = short;
  }
  return stem.endsWith("ll") && measure(stem.slice(0, -1)) > 1 ? stem.slice(0, -1) : stem;
}

/** Latin letters without their accents, and one form of the Greek sigma. */
function folded(word: string): string {
  if (/^[!-~]*$/.test(word)) return word;
  return word
    .normalize("NFD")
    .replaceAll(/(?<=[a-z])[\u0300-\u036f]+/g, "")
    .normalize("NFC")
    .replaceAll("ς", "σ");
}

/** The stem of a word in lower case; words of other scripts stay as they are. */
export function stemOf(given: string): string {
  const word = folded(given);
  const bytes = Buffer.byteLength(word);
  if (bytes > LONGEST || bytes < SHORTEST) return word;
  let stem = past(plural(word));
  if (stem.endsWith("y") && hasVowel(stem.slice(0, -1))) stem = `${stem.slice(0, -1)}i`;
  return lastLetters(replace(replace(replace(stem, STEP_2, 0), STEP_3, 0), STEP_4, 1));
}
