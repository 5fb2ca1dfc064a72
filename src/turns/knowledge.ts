import { disarm } from "../agent/reply/disarm.ts";
import { z } from "zod";
import type { TurnExtension, Agent, ConversationMessage } from "../agent/types.ts";
import type { ContextProvider, Part, Tool } from "../contract/kinds.ts";
import {
  findCitationMarks,
  createNumbering,
  renderFound,
  renderName,
  renderPassage,
  SEARCH_NAME,
  type SeenBefore,
} from "./citation-numbers.ts";
import type { Citation, NamedCitation } from "../store/types.ts";
import { toQuestion } from "./channel/channel-input.ts";

const toPattern = (words: string, flags = "u"): RegExp =>
  new RegExp(`(?<![\\p{L}\\p{M}])(?:${words.split(" ").join("|")})(?![\\p{L}\\p{M}])`, flags);

/** Words with which a question begins that goes on with the one before. */
const BEGINS = toPattern(
  "and but so also or then what\\sabout how\\sabout und aber oder auch dann was\\sist\\smit wie\\sist\\ses\\smit et mais ou aussi alors qu'en\\sest-il y e o pero también entonces qué\\shay\\sde ma " +
    "anche allora mas também então en maar ook dan och men också og også ja mutta entä i a ale oraz też także také и а но или также тогда і й та або też και κι αλλά és de și si dar " +
    "ve ama peki ya و لكن ثم و(?:من|ما|ماذا|أين|اين|هل|كم|متى|كيف|لماذا) اما پس ו(?:מה|מי|איפה|איך|מתי|כמה) אבל אז और लेकिन तो फिर tapi lalu dan và còn thế 그리고 그럼 그러면 그런데 근데 그건 또",
  "uy",
);
/** Words that stand for what was named before. */
const REFERS = toPattern(
  "it its they them their he him his she her hers that those this these there ones " +
    "ihn ihm ihnen dessen deren dafür davon damit darüber dazu daran darin dort dies diese diesem diesen dieser dieses jene jener jenes " +
    "lui elle elles celui celle ceux celles cela ça là-bas ello ella ellas ellos él eso esa ese esto esta este estos estas allí ahí lo " +
    "lei loro esso essa questo questa quello quella ciò ele ela eles elas isso isto aquilo dele dela lhe lá hij hem haar hun hen dit deze daar ervan " +
    "han hon hun dess deras deres där der jego jej ich go tam ten tego ho jeho její jich toho tam " +
    "он она оно они его её ее ему ей им их него неё нее них этот эта это эти этого там він вона воно вони його її їх йому цей ця це ці " +
    "o onu onun onlar onları bunu bunun bunlar orada هو هي هم هذا هذه ذلك تلك هناك له لها لهم به بها عنه عنها منه منها فيه فيها آن این آنها آنجا הוא היא הם זה זאת אלה שם אותו אותה לו לה " +
    "αυτό αυτή αυτός αυτά αυτού αυτής εκεί यह वह इस उस इसे उसे इसका उसका वे वहाँ itu ini dia mereka tersebut nó họ đó này ấy 그것 그거 그걸 그게 이것 이거 그는 그녀 거기",
);
/** Words that ask for more of the same. */
const ADDS = toPattern(
  "else other others another more too noch sonst weitere weiteren andere anderen autre autres encore más otro otra otros altro altri ancora mais outro outra outros " +
    "ander andere nog mer annan annat fler flere andre jeszcze inny inni ještě jiný ещё еще тоже другие другой ще інші başka daha آخر أخرى أيضا ايضا دیگر עוד אחר άλλος άλλη άλλο άλλοι और lain lagi khác nữa 더 다른",
);
const UNSPACED_BEGINS =
  /^(?:那么|那麼|那|还有|還有|然后|然後|所以|では|じゃあ|それでは|それ|そして|また|ほかに|他に|แล้ว|และ|แต่)|呢[?？]?$/u;
const UNSPACED_REFERS =
  /[它他她]|这[个個些里裡]|[这這那][个個些里裡]|其(?!实|實)|还|還|另外|それ|これ|あれ|その|この|あの|そこ|彼|ほかに|他に|มัน|นั้น|นี้|อีก|ที่นั่น/u;
const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]/u;
const WORD = /[\p{L}\p{N}\p{M}]+/gu;
/** A question of so few words, or characters in scripts without spaces, hardly says what it is about. */
const FEW_WORDS = 2;
const FEW_CHARACTERS = 4;
/** A longer question says itself what it is about. */
const MANY_WORDS = 12;
const SOME_WORDS = 7;
const MANY_CHARACTERS = 20;
/** So many questions that go on with each other are followed back. */
const MAX_CHAIN = 4;

/** Whether a question needs the one before it to be understood. */
function isFollowUp(question: string): boolean {
  // A question in Spanish begins with its mark. "Sie" is the person who is asked.
  const text = question.replace(/^[\s\p{P}]+/u, "");
  if (UNSPACED.test(text)) {
    const length = text.replaceAll(/[\p{P}\s]/gu, "").length;
    return (
      length <= FEW_CHARACTERS ||
      UNSPACED_BEGINS.test(text) ||
      (length <= MANY_CHARACTERS && UNSPACED_REFERS.test(text))
    );
  }
  const count = text.match(WORD)?.length ?? 0;
  if (count <= FEW_WORDS) return true;
  const lower = text.toLowerCase();
  BEGINS.lastIndex = 0;
  return (
    (count <= MANY_WORDS &&
      (BEGINS.test(lower) || REFERS.test(lower) || / sie(?!\p{L})/u.test(text))) ||
    (count <= SOME_WORDS && ADDS.test(lower))
  );
}

const getText = (message: ConversationMessage): string =>
  message.role === "user"
    ? message.parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n")
    : "";

/** The questions before this one, newest first. */
function listEarlier(question: string, { history = [], messages = [] }: SeenBefore): string[] {
  const asked = [
    ...history.filter(({ checkpoint }) => !checkpoint).map(({ input }) => toQuestion(input)),
    ...messages.map(getText),
  ];
  return asked
    .map((text) => text.trim())
    .filter((text) => text !== "" && text !== question.trim())
    .toReversed();
}

/** Returns the questions that a question goes on with, back to one that says itself what it is about; undefined if it does so. */
export function findEarlierQuestions(question: string, seen: SeenBefore): string | undefined {
  if (question.trim() === "" || !isFollowUp(question)) return undefined;
  const found: string[] = [];
  for (const earlier of listEarlier(question, seen).slice(0, MAX_CHAIN)) {
    found.push(earlier);
    if (!isFollowUp(earlier)) break;
  }
  return found.length === 0 ? undefined : found.join("\n");
}

export type { CitationMark } from "./citation-numbers.ts";
export type { Citation, NamedCitation } from "../store/types.ts";

/** The search for passages. A turn without it has none. */
export interface KnowledgeSearch {
  /** False: nothing could be found, so that the turn need not look. Not there: something may. */
  has?(scope: { tenant: string; agentId: string }): Promise<boolean>;
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

/** What a turn has of documents. */
interface TurnKnowledge {
  /** The passages and the tool; empty if the agent has no documents. */
  extensions: TurnExtension[];
  /** All passages that the model was given, and those of earlier turns that the text names, in the order of their numbers. */
  getCitations(text: string): NamedCitation[];
}

/** Whose documents a turn may search. */
interface KnowledgeScope {
  agent: Agent;
  tenant: string;
}

/** True if the model has answered before: the new answer may repeat numbers of passages. */
const hasAnswers = ({ history = [], messages = [], steps = [] }: SeenBefore): boolean =>
  history.length > 0 || steps.length > 0 || messages.some(({ role }) => role !== "user");

/**
 * Returns what an agent's documents add to a turn: passages for an agent with `knowledge: "auto"`, and the tool that searches
 * for more. `earlier`: what the model has seen before, whose numbers stay what they are.
 */
export async function createTurnKnowledge(
  { agent, tenant }: KnowledgeScope,
  knowledge: KnowledgeSearch | undefined,
  earlier: SeenBefore = {},
): Promise<TurnKnowledge> {
  const scope = { tenant, agentId: agent.id };
  const hasDocuments =
    knowledge !== undefined &&
    agent.knowledge !== "off" &&
    // If that cannot be found out, the search below fails with the reason.
    (!knowledge.has || (await knowledge.has(scope).catch(() => true)));
  if (!hasDocuments && !hasAnswers(earlier)) return { extensions: [], getCitations: () => [] };
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
    const before = findEarlierQuestions(question, earlier)?.slice(0, MAX_QUESTION);
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
