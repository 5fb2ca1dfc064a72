import { disarm } from "../agent/disarm.ts";
import { z } from "zod";
import type { TurnExtension } from "../agent/extensions.ts";
import type { Agent } from "../agent/types.ts";
import type { ContextProvider, Part, Tool } from "../contract/kinds.ts";
import { findCitationMarks } from "./citation-marks.ts";
import { findEarlierQuestions } from "./follow-up.ts";
import {
  createNumbering,
  renderFound,
  renderName,
  renderPassage,
  SEARCH_NAME,
  type Citation,
  type SeenBefore,
  type NamedCitation,
} from "./citation-numbers.ts";

export type { CitationMark } from "./citation-marks.ts";
export type { Citation, NamedCitation } from "./citation-numbers.ts";

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
export interface TurnKnowledge {
  /** The passages and the tool; empty if the agent has no documents. */
  extensions: TurnExtension[];
  /** All passages that the model was given, and those of earlier turns that the text names, in the order of their numbers. */
  getCitations(text: string): NamedCitation[];
}

/** Whose documents a turn may search. */
export interface KnowledgeScope {
  agent: Agent;
  tenant: string;
}

/**
 * Returns what an agent's documents add to a turn: passages for an agent with `knowledge: "auto"`, and the tool that searches
 * for more. `earlier`: what the model has seen before, whose numbers stay what they are.
 */
export async function createTurnKnowledge(
  { agent, tenant }: KnowledgeScope,
  knowledge: KnowledgeSearch | undefined,
  earlier: SeenBefore = {},
): Promise<TurnKnowledge> {
  const numbering = createNumbering(earlier);
  const nothing: TurnKnowledge = { extensions: [], getCitations: numbering.getCitations };
  if (!knowledge || agent.knowledge === "off") return nothing;
  const scope = { tenant, agentId: agent.id };
  // If that cannot be found out, the search below fails with the reason.
  if (knowledge.has && !(await knowledge.has(scope).catch(() => true))) return nothing;
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
