/**
 * Separates what a model thinks from what it answers, if both come in one text. Models and front ends mark thoughts by tags;
 * here they count only at the begin of an answer. Later in a text they are words like any others.
 */

/** The names of tags in angle brackets. They may have attributes, and any case. */
const NAMES = ["think", "thinking", "thought", "reasoning", "antthinking", "seed:think"];
/** The tags of Magistral, Kimi, Sky-T1 and Command A, each with its end. */
const OTHERS = [
  ["[think]", "[/think]"],
  ["◁think▷", "◁/think▷"],
  ["<|begin_of_thought|>", "<|end_of_thought|>"],
  ["<|start_thinking|>", "<|end_thinking|>"],
] as const;
const TAGS: readonly (readonly [open: string, close: string])[] = [
  ...NAMES.map((name) => [`<${name}>`, `</${name}>`] as const),
  ...OTHERS,
];
const NAME = `<(${NAMES.join("|")})`;
const WITH_ATTRIBUTES = new RegExp(
  `^${NAME}(?:\\s+[\\w:-]+=(?:"[^"<>]*"|'[^'<>]*'|[\\w.-]+))*\\s*>`,
  "i",
);
/** Matches a begun tag: attributes are no longer than this. */
const BEGUN_ATTRIBUTES = new RegExp(`^${NAME}\\s[^<>]{0,200}$`, "i");

/** A piece of what a model said. `block`: the number of the thought, from 0; absent for the answer. */
export interface SaidPiece {
  text: string;
  block?: number;
}

/** Reads the beginning of a text: a tag, the begin of one, or something else. */
function readTag(text: string): { close?: string; length: number } | "unfinished" | undefined {
  const lower = text.toLowerCase();
  for (const [open, close] of TAGS) {
    if (lower.startsWith(open)) return { close, length: open.length };
    // The template of the prompt had the beginning of an empty thought.
    if (lower.startsWith(close)) return { length: close.length };
    if (open.startsWith(lower) || close.startsWith(lower)) return "unfinished";
  }
  const [whole, name = ""] = WITH_ATTRIBUTES.exec(text) ?? [];
  if (whole !== undefined) return { close: `</${name.toLowerCase()}>`, length: whole.length };
  return BEGUN_ATTRIBUTES.test(text) ? "unfinished" : undefined;
}

/** Counts the characters at the end of a text that may be the beginning of `tag`. */
function countBegun(text: string, tag: string): number {
  const end = text.slice(1 - tag.length).toLowerCase();
  for (let length = end.length; length > 0; length--)
    if (tag.startsWith(end.slice(-length))) return length;
  return 0;
}

const indexOfTag = (text: string, tag: string): number =>
  text.search(new RegExp(tag.replace(/[[\]|]/g, "\\$&"), "i"));

/** Reads one answer in pieces of any length. The pieces that it returns are the same for each way to cut the text. */
export class ThoughtReader {
  #state: "begin" | "thought" | "answer" = "begin";
  /** The text that is not decided yet. */
  #held = "";
  #close = "";
  #blocks = 0;
  #hasTag = false;
  /** True if the thought has words already: the white space around it goes. */
  #hasWords = false;

  push(delta: string): SaidPiece[] {
    if (this.#state === "answer") return delta === "" ? [] : [{ text: delta }];
    this.#held += delta;
    const said: SaidPiece[] = [];
    while (this.#held !== "" && this.#step(said));
    return said;
  }

  /** Returns what was held back. A thought without an end is one. */
  end(): SaidPiece[] {
    const said: SaidPiece[] = [];
    if (this.#state === "thought") this.#think(this.#held.trimEnd(), said);
    else this.#answer(said);
    this.#held = "";
    return said;
  }

  /** Reads as far as the next change of state. False if that needs more text. */
  #step(said: SaidPiece[]): boolean {
    if (this.#state === "begin") return this.#readBegin(said);
    const text = this.#held;
    const at = indexOfTag(text, this.#close);
    const isWhole = at >= 0;
    const end = isWhole ? at : text.length - countBegun(text, this.#close);
    const thought = text.slice(0, end).trimEnd();
    this.#think(thought, said);
    this.#held = text.slice(isWhole ? at + this.#close.length : thought.length);
    if (isWhole) this.#state = "begin";
    return isWhole;
  }

  #readBegin(said: SaidPiece[]): boolean {
    const text = this.#held.trimStart();
    if (text === "") return false;
    const tag = readTag(text);
    if (tag === "unfinished") return false;
    if (tag === undefined) {
      this.#answer(said);
      return false;
    }
    this.#hasTag = true;
    this.#held = text.slice(tag.length);
    if (tag.close === undefined) return true;
    this.#state = "thought";
    this.#close = tag.close;
    this.#hasWords = false;
    return true;
  }

  #answer(said: SaidPiece[]): void {
    this.#state = "answer";
    // White space alone is no answer.
    const words = this.#held.trimStart();
    const text = this.#hasTag || words === "" ? words : this.#held;
    this.#held = "";
    if (text !== "") said.push({ text });
  }

  #think(thought: string, said: SaidPiece[]): void {
    const text = this.#hasWords ? thought : thought.trimStart();
    if (text === "") return;
    if (!this.#hasWords) this.#blocks++;
    this.#hasWords = true;
    said.push({ text, block: this.#blocks - 1 });
  }
}

const LONE_END = /^[^\S\n]*<\/think>[^\S\n]*(?:\n|$)/im;

/**
 * Splits an answer whose thought has an end and no begin, as with templates of prompts that begin the thought: the end stands
 * alone in a line, outside code, and no text before it names the tag.
 */
function splitAtLoneEnd(text: string): { thought: string; answer: string } | undefined {
  const found = LONE_END.exec(text);
  if (!found) return undefined;
  const before = text.slice(0, found.index);
  const fences = before.match(/^\s*(?:```|~~~)/gm)?.length ?? 0;
  if (fences % 2 === 1 || /<\/?think/i.test(before)) return undefined;
  return {
    thought: before.trim(),
    answer: text.slice(found.index + found[0].length).trimStart(),
  };
}

/**
 * Splits a whole answer into its thoughts and the rest, which is the end of the text. `isFinal`: a reader has the text
 * already, so that a thought without a begin stays what it was taken for.
 */
export function splitThoughts(
  text: string,
  { isFinal = false }: { isFinal?: boolean } = {},
): { thoughts: string[]; answer: string } {
  const reader = new ThoughtReader();
  const thoughts: string[] = [];
  let answer = "";
  for (const { text: piece, block } of [...reader.push(text), ...reader.end()])
    if (block === undefined) answer += piece;
    else thoughts[block] = (thoughts[block] ?? "") + piece;
  const lone = isFinal || answer !== text ? undefined : splitAtLoneEnd(text);
  if (!lone) return { thoughts, answer };
  return { thoughts: lone.thought === "" ? [] : [lone.thought], answer: lone.answer };
}

interface Part {
  type?: unknown;
  text?: unknown;
  providerOptions?: { rouse?: { thought?: unknown } };
}

interface Message {
  role: string;
  content?: unknown;
}

/** Distinguishes thoughts that were part of a text from those that a provider gives, and may want to have again. */
const FROM_TEXT = { rouse: { thought: true } };

/** Leaves out the thoughts that were part of a text: models do not see those of earlier turns again. */
export function withoutThoughts(messages: readonly unknown[]): unknown[] {
  return messages.flatMap((message) => {
    const { content } = message as Message;
    if (!Array.isArray(content)) return [message];
    const kept = (content as Part[]).filter(
      (part) => part.providerOptions?.rouse?.thought === undefined,
    );
    return kept.length === 0 && content.length > 0
      ? []
      : [{ ...(message as Message), content: kept }];
  });
}

/** Turns the thoughts at the begin of a model's text into parts of their own, as providers give them that separate the two. */
export function separateThoughts<M extends Message>(
  messages: readonly M[],
  options: { isFinal: boolean },
): M[] {
  const toParts = (content: unknown): Part[] =>
    typeof content === "string"
      ? [{ type: "text", text: content }]
      : Array.isArray(content)
        ? (content as Part[])
        : [];
  const isText = ({ type }: Part): boolean => type === "text";
  const text = messages
    .flatMap(({ content }) => toParts(content).filter(isText))
    .map((part) => String(part.text))
    .join("");
  const { thoughts, answer } = splitThoughts(text, options);
  let left = text.length - answer.length;
  if (left === 0) return [...messages];
  const added = thoughts.map((thought): Part => ({
    type: "reasoning",
    text: thought,
    providerOptions: FROM_TEXT,
  }));
  return messages.flatMap((message) => {
    const content = toParts(message.content).flatMap((part): Part[] => {
      if (!isText(part)) return [part];
      const said = String(part.text);
      const kept = said.slice(left);
      left = Math.max(0, left - said.length);
      return [...added.splice(0), ...(kept === "" ? [] : [{ ...part, text: kept }])];
    });
    return content.length === 0 ? [] : [{ ...message, content }];
  });
}
