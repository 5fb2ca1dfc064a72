/** The documents in a turn: passages for the model, their numbers, and the numbers that an answer names. */
import type { Nodes } from "mdast";
import { z } from "zod";
import { disarm } from "../agent/reply/disarm.ts";
import type { Agent, ConversationMessage, TurnExtension } from "../agent/types.ts";
import type { ContextProvider, Part, Tool } from "../contract/kinds.ts";
import { parseMarkdown } from "../core/markdown.ts";
import { oneLine, plainText } from "../core/text.ts";
import type { Citation, NamedCitation, StepRecord, TurnRecord } from "../store/types.ts";
import { toQuestion } from "./channel/channel-input.ts";
import { findEarlierQuestions } from "./follow-up.ts";

export type { Citation, NamedCitation } from "../store/types.ts";

/** A number in brackets by which a text names a passage, with its place in UTF-16 units; of several in one pair, without it. */
export interface CitationMark {
  number: number;
  start: number;
  end: number;
}

/** Up to four digits: longer numbers are years with a month, amounts, and the like. */
const MARK = /\[(\d{1,4}(?:, ?\d{1,4})*)\](?!\()/g;
/** The box of a checklist, and the definition of a link. */
const NO_MARK = /(?:^|\n)[ \t]*[-*+][ \t]+$/;
const DEFINITION = /^:[ \t]*https?:/;
const LINE_MARK = /^([ \t]*)\[(?=\d{1,4}\])/gm;

/** Lists where code begins and ends. */
function* listCode(node: Nodes): Generator<{ start: number; end: number }> {
  const { type, position } = node;
  if ((type === "code" || type === "inlineCode") && position)
    yield { start: position.start.offset ?? 0, end: position.end.offset ?? 0 };
  if ("children" in node) for (const child of node.children) yield* listCode(child);
}

function createCodeTest(text: string): (at: number) => boolean {
  // Most texts have neither marks nor code, and reading Markdown takes time.
  const hasBoth = text.search(MARK) >= 0 && /[`~]/.test(text);
  const code = hasBoth ? [...listCode(parseMarkdown(text))] : [];
  return (at) => code.some(({ start, end }) => at >= start && at < end);
}

/** Finds the numbers by which a text names passages: not those in code, in checklists, in links or after a backslash. */
function findCitationMarks(text: string): CitationMark[] {
  const isCode = createCodeTest(text);
  return [...text.matchAll(MARK)].flatMap(({ index: start, 0: mark, 1: digits = "" }) => {
    const end = start + mark.length;
    const before = text.slice(Math.max(0, start - 80), start);
    const isOther =
      before.endsWith("\\") || NO_MARK.test(before) || DEFINITION.test(text.slice(end, end + 20));
    if (isOther || isCode(start)) return [];
    if (!digits.includes(",")) return [{ number: Number(digits), start, end }];
    return [...digits.matchAll(/\d+/g)].map(({ index, 0: one }) => {
      const from = start + 1 + index;
      return { number: Number(one), start: from, end: from + one.length };
    });
  });
}

/** Puts a backslash before what a passage has in the form of a citation, such as the marks of footnotes: no answer copies it as one. */
function escapeCitationMarks(text: string): string {
  const isCode = createCodeTest(text);
  const escaped = text.replaceAll(MARK, (mark: string, _digits: string, at: number) =>
    isCode(at) ? mark : `\\${mark}`,
  );
  return escaped.replaceAll(LINE_MARK, String.raw`$1\[`);
}

/** The conversation that the model sees before a search. */
interface SeenBefore {
  /** Turns of the session. */
  history?: readonly Pick<TurnRecord, "input" | "messages" | "context" | "checkpoint">[];
  /** A conversation that the caller has sent. */
  messages?: readonly ConversationMessage[];
  /** Steps of earlier attempts of the run. */
  steps?: readonly Pick<StepRecord, "calls">[];
}

export const SEARCH_NAME = "knowledge_search";

const renderName = ({ filename, page }: Citation): string =>
  `${oneLine(filename)}${page === null ? "" : `, page ${page}`}`;
/** Names the passage too, so that its number can be read back from what the model was given. */
const renderOrigin = (passage: Citation): string =>
  `document ${renderName(passage)} (${passage.chunkId})`;

/** Renders a passage that a turn is given before its input. */
const renderPassage = (passage: NamedCitation): Part[] => [
  { text: `[${passage.number}]`, from: "operator" },
  { text: escapeCitationMarks(passage.text), from: "outside", label: renderOrigin(passage) },
];

/** Renders the result of a search by the model. */
const renderFound = (found: readonly NamedCitation[]): string =>
  found
    .map(
      (passage) =>
        `[${passage.number}] ${renderOrigin(passage)}\n${escapeCitationMarks(passage.text)}`,
    )
    .join("\n\n");

const ORIGIN = /^document (.*?)(?:, page (\d+))? \((([^()\s#]+)#\d+)\)$/;
/** No passage has such a line: its marks are escaped. */
const HEAD = /^\[(\d{1,4})\] (document .* \([^()\s#]+#\d+\))$/gm;
const NUMBER = /^\[(\d{1,4})\]$/;

function readPassage(number: string, origin: string, text: string): NamedCitation[] {
  const [, filename, page, chunkId, documentId] = ORIGIN.exec(origin) ?? [];
  if (filename === undefined || chunkId === undefined || documentId === undefined) return [];
  const place = page === undefined ? null : Number(page);
  return [
    {
      number: Number(number),
      documentId,
      chunkId,
      filename,
      title: null,
      page: place,
      score: null,
      text: text.trim(),
    },
  ];
}

/** Reads back what `renderPassage` has rendered. */
function readContext(parts: readonly { text: string; label?: string }[]): NamedCitation[] {
  return parts.flatMap(({ text }, index) => {
    const number = NUMBER.exec(text)?.[1];
    const passage = parts[index + 1];
    return number === undefined || !passage?.label
      ? []
      : readPassage(number, passage.label, passage.text);
  });
}

/** Reads back what `renderFound` has rendered. */
function readFound(result: string): NamedCitation[] {
  const heads = [...result.matchAll(HEAD)];
  return heads.flatMap(({ index, 0: head, 1: number = "", 2: origin = "" }, at) =>
    readPassage(number, origin, result.slice(index + head.length, heads[at + 1]?.index)),
  );
}

interface ContentPart {
  type?: unknown;
  text?: unknown;
  toolName?: unknown;
  output?: { value?: unknown };
}

/** Reads the results of searches, and the words of the model, from messages of the `ai` package. */
function readMessages(messages: readonly unknown[]): { found: NamedCitation[]; said: string[] } {
  const found: NamedCitation[] = [];
  const said: string[] = [];
  for (const message of messages) {
    const { role, content } = message as { role?: unknown; content?: unknown };
    if (role === "assistant" && typeof content === "string") said.push(content);
    if (!Array.isArray(content)) continue;
    for (const { type, text, toolName, output } of content as ContentPart[]) {
      if (role === "assistant" && typeof text === "string") said.push(text);
      if (type === "tool-result" && toolName === SEARCH_NAME && typeof output?.value === "string")
        found.push(...readFound(output.value));
    }
  }
  return { found, said };
}

function readEarlier({ history = [], messages = [] }: SeenBefore): {
  found: NamedCitation[];
  said: string[];
} {
  const turns = history.map((turn) => {
    const { found, said } = readMessages(turn.messages);
    const summary = turn.checkpoint ? [plainText(turn.input)] : [];
    return { found: [...readContext(turn.context ?? []), ...found], said: [...said, ...summary] };
  });
  const sent = messages.map((message) => {
    if (message.role === "steps") return readMessages(message.messages);
    return { found: [], said: message.role === "assistant" ? [message.text] : [] };
  });
  const all = [...turns, ...sent];
  return { found: all.flatMap(({ found }) => found), said: all.flatMap(({ said }) => said) };
}

const readSteps = ({ steps = [] }: SeenBefore): NamedCitation[] =>
  steps.flatMap(({ calls }) =>
    calls
      .filter(({ name }) => name === SEARCH_NAME)
      .flatMap(({ output }) =>
        (output?.parts ?? []).flatMap((part) => (part.type === "text" ? readFound(part.text) : [])),
      ),
  );

/**
 * Numbers passages. A passage has one number for as long as the model sees it, and no number that the model still sees, in a
 * result or in its own words, is given to another passage.
 */
function createNumbering(earlier: SeenBefore) {
  const { found, said } = readEarlier(earlier);
  const inWords = said.flatMap((text) => findCitationMarks(text).map(({ number }) => number));
  const ofSteps = readSteps(earlier);
  const byChunk = new Map([...found, ...ofSteps].map((passage) => [passage.chunkId, passage]));
  const byNumber = new Map([...found, ...ofSteps].map((passage) => [passage.number, passage]));
  const given = new Set(ofSteps.map(({ number }) => number));
  // Another attempt counts from where the first one did: its passages have the numbers that its steps name.
  let last = [...inWords, ...found.map(({ number }) => number)].reduce((a, b) => Math.max(a, b), 0);
  return {
    add(passage: Citation): NamedCitation {
      const known = byChunk.get(passage.chunkId)?.number;
      if (known === undefined)
        do last++;
        while (byNumber.has(last));
      const numbered = { ...passage, number: known ?? last };
      byChunk.set(passage.chunkId, numbered);
      byNumber.set(numbered.number, numbered);
      given.add(numbered.number);
      return numbered;
    },
    getCitations(text: string): NamedCitation[] {
      const named = new Set(findCitationMarks(text).map(({ number }) => number));
      const all = [...byNumber.values()].filter(
        ({ number }) => given.has(number) || named.has(number),
      );
      return all.toSorted((a, b) => a.number - b.number);
    },
  };
}

const getText = (message: ConversationMessage): string =>
  message.role === "user"
    ? message.parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n")
    : "";

/** Yields the questions before this one, newest first. */
function* listEarlier({ history = [], messages = [] }: SeenBefore): Generator<string> {
  for (const message of messages.toReversed()) yield getText(message);
  for (const { checkpoint, input } of history.toReversed())
    if (!checkpoint) yield toQuestion(input);
}

/** The search for passages. A turn without it has none. */
export interface KnowledgeSearch {
  /** False if there are no documents at all. */
  hasAny(): Promise<boolean>;
  /** False if nothing could be found: then the turn does not look. */
  has(scope: { tenant: string; agentId: string }): Promise<boolean>;
  /** `relevantOnly` leaves out passages that have too little of the question. */
  search(query: {
    tenant: string;
    agentId: string;
    text: string;
    /** The questions that `text` goes on with. */
    earlier?: string;
    limit: number;
    perDocument?: number;
    relevantOnly?: boolean;
  }): Promise<readonly Citation[]>;
}

const LIMIT = 8;
/** Of the passages that a turn is given without asking: one long document leaves room for others. */
const PER_DOCUMENT = 4;
const MAX_QUESTION = 2_000;
const INPUT = z.strictObject({ query: z.string() });
const PASSAGES_LEAD =
  "Passages from your documents that may help with what follows, each with its number:";
const DESCRIPTION =
  "Searches the documents that were uploaded for you. Give a question or a few telling words; the passages that fit best come back, each with its number. Name the numbers of those you used, as [1].";

/** True if the model has answered before: the new answer may repeat numbers of passages. */
const hasAnswers = ({ history = [], messages = [], steps = [] }: SeenBefore): boolean =>
  history.length > 0 || steps.length > 0 || messages.some(({ role }) => role !== "user");

/**
 * Returns what an agent's documents add to a turn: passages for an agent with `knowledge: "auto"`, and the tool that searches
 * for more; no extension if there are no documents. `earlier`: what the model has seen before, whose numbers stay what they are.
 * `getCitations` returns all passages that the model was given, and those of earlier turns that the text names, in the order of
 * their numbers.
 */
export async function createTurnKnowledge(
  { agent, tenant }: { agent: Agent; tenant: string },
  knowledge: KnowledgeSearch,
  earlier: SeenBefore = {},
) {
  const scope = { tenant, agentId: agent.id };
  const mayFind = async (): Promise<boolean> => (await knowledge.hasAny()) && knowledge.has(scope);
  // If that cannot be found out, the search below fails with the reason.
  const hasDocuments = agent.knowledge !== "off" && (await mayFind().catch(() => true));
  if (!hasDocuments && !hasAnswers(earlier))
    return { extensions: [], getCitations: (): NamedCitation[] => [] };
  const numbering = createNumbering(earlier);
  if (!hasDocuments) return { extensions: [], getCitations: numbering.getCitations };
  const find = async (
    text: string,
    limits: { perDocument?: number; relevantOnly?: boolean; earlier?: string } = {},
  ): Promise<NamedCitation[]> => {
    if (text.trim() === "") return [];
    const found = await knowledge.search({
      ...scope,
      text: text.slice(0, MAX_QUESTION),
      limit: LIMIT,
      ...limits,
    });
    return found.map(numbering.add);
  };
  const context: ContextProvider = async ({ question }) => {
    const before = findEarlierQuestions(question, listEarlier(earlier))?.slice(0, MAX_QUESTION);
    const found = await find(question, {
      perDocument: PER_DOCUMENT,
      relevantOnly: true,
      ...(before === undefined ? {} : { earlier: before }),
    });
    return found.length === 0
      ? []
      : [
          { text: PASSAGES_LEAD, from: "operator" },
          ...found.flatMap((passage): Part[] => renderPassage(passage)),
        ];
  };
  const search: Tool<typeof INPUT> = {
    name: SEARCH_NAME,
    description: DESCRIPTION,
    input: INPUT,
    readOnly: true,
    idempotent: true,
    async execute({ query }) {
      const found = await find(query);
      return found.length === 0 ? "Nothing was found." : renderFound(found);
    },
  };
  const extension: TurnExtension = {
    id: "knowledge",
    tools: [search],
    warning: "the documents could not be searched; the turn went on without passages",
    ...(agent.knowledge === "auto" && { context }),
  };
  return { extensions: [extension], getCitations: numbering.getCitations };
}

/** Returns the passages with their numbers, those that a text names, in the order of their numbers, and where it names them. */
export function findCited(text: string, citations: readonly NamedCitation[]) {
  if (citations.length === 0) return { cited: [], marks: [] };
  const byNumber = new Map(citations.map((citation) => [citation.number, citation]));
  const marks = findCitationMarks(text).flatMap(({ number, start, end }) => {
    const citation = byNumber.get(number);
    return citation ? [{ citation, start, end }] : [];
  });
  const named = new Set(marks.map(({ citation }) => citation));
  return { cited: citations.filter((citation) => named.has(citation)), marks };
}

/** Adds the documents that a reply names by number, one a line, for readers who are shown no citations. */
export function withSources(reply: string, citations: readonly NamedCitation[]): string {
  const lines = findCited(reply, citations).cited.map(
    (passage) => `[${passage.number}] ${renderName(passage)}`,
  );
  // A document's name is outside text as well.
  return lines.length === 0 ? reply : disarm(`${reply}\n\n${lines.join("\n")}`);
}
