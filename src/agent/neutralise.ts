import { getReadings } from "./confusables.ts";

/** Text without any of these signs, in which all is ASCII, holds nothing that is looked for. */
const SUSPICIOUS = /[<>[\]]|[^\0-\x7f]/;
const BRACKET = /[<>[\]]/;
const REPLACEMENT = "(removed marker)";

/** A pattern for what must not stand in outside text. */
interface Forbidden {
  pattern: RegExp;
  /** Where a gap belongs to other text: never in it; or only beside an underscore, so that `[tool calls]` stays a link. */
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

/** What a text reads as, and where in the text each unit of it comes from. */
interface Shadow {
  text: string;
  from: Uint32Array;
  to: Uint32Array;
}

function createShadow(original: string): Shadow {
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

/** Where in the text something stands that must not, in order. */
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
