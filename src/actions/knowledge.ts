import { disarm } from "../agent/disarm.ts";
import type { Agent, OwnTool } from "../agent/types.ts";
import { oneLine } from "../core/text.ts";
import type { Passage as FoundPassage } from "../knowledge/types.ts";

/** What a turn needs of a piece of a document that a search has found. */
export type Passage = Pick<FoundPassage, "documentId" | "chunkId" | "filename" | "title" | "page" | "score" | "text">;

/** Where passages come from. A turn without it has none. */
export interface KnowledgeSearch {
  /** False: nothing could be found, so that the turn need not look. Not there: something may. */
  has?(scope: { tenant: string; agentId: string }): Promise<boolean>;
  search(query: { tenant: string; agentId: string; text: string; limit: number }): Promise<readonly Passage[]>;
}

const LIMIT = 8;
const MAX_QUESTION = 2_000;
const DESCRIPTION =
  "Searches the documents that were uploaded for you. Give a question or a few telling words; the passages that fit best come back, each with its number. Name the numbers of those you used, as [1].";

/** What a turn knows from documents, and which passages it was given. */
export interface TurnKnowledge {
  /** Passages that stand before the question already (`knowledge: "auto"`). */
  passages: { text: string; origin: string }[];
  tools: OwnTool[];
  /** All passages the model was given, in the order of their numbers. */
  citations: Passage[];
  warnings: string[];
}

/** What a turn may look up. */
export interface KnowledgeQuestion {
  agent: Agent;
  /** Whose documents. */
  tenant: string;
  /** What an agent with `knowledge: "auto"` is given passages for; blank: none. */
  question: string;
}

const renderName = ({ filename, page }: Passage): string => `${oneLine(filename)}${page === null ? "" : `, page ${page}`}`;
const renderOrigin = (passage: Passage): string => `document ${renderName(passage)}`;

/** Looks up passages for a turn, and makes the tool with which the model looks up more. */
export async function gatherKnowledge(
  { agent, tenant, question }: KnowledgeQuestion,
  knowledge: KnowledgeSearch | undefined,
): Promise<TurnKnowledge> {
  const gathered: TurnKnowledge = { passages: [], tools: [], citations: [], warnings: [] };
  if (!knowledge || agent.knowledge === "off") return gathered;
  const scope = { tenant, agentId: agent.id };
  // Where it cannot be told, the search below says so.
  if (knowledge.has && !(await knowledge.has(scope).catch(() => true))) return gathered;
  const find = async (text: string): Promise<readonly Passage[]> => {
    if (text.trim() === "") return [];
    const found = await knowledge.search({ ...scope, text: text.slice(0, MAX_QUESTION), limit: LIMIT });
    const known = new Set(gathered.citations.map(({ chunkId }) => chunkId));
    gathered.citations.push(...found.filter(({ chunkId }) => !known.has(chunkId)));
    return found;
  };
  if (agent.knowledge === "auto") {
    // A question without its passages is still a question.
    const found = await find(question).catch(() => {
      gathered.warnings.push("the documents could not be searched; the turn went on without passages");
      return [];
    });
    gathered.passages = found.map((passage) => ({ text: passage.text, origin: renderOrigin(passage) }));
  }
  const numberOf = ({ chunkId }: Passage): number => gathered.citations.findIndex((citation) => citation.chunkId === chunkId) + 1;
  gathered.tools.push({
    name: "knowledge_search",
    description: DESCRIPTION,
    schema: { type: "object", properties: { query: { type: "string" } }, required: ["query"], additionalProperties: false },
    async run(input) {
      const { query } = input as { query?: unknown };
      const found = await find(typeof query === "string" ? query : "");
      if (found.length === 0) return "Nothing was found.";
      return found.map((passage) => `[${numberOf(passage)}] ${renderOrigin(passage)}\n${passage.text}`).join("\n\n");
    },
  });
  return gathered;
}

/** Adds the documents that a reply names by number, one a line, for readers who are shown no citations. */
export function withSources(reply: string, citations: readonly Passage[]): string {
  const lines = citations.map((passage, index) => [`[${index + 1}]`, renderName(passage)] as const);
  const named = lines.filter(([number]) => reply.includes(number)).map((line) => line.join(" "));
  // A document's name is outside text as well.
  return named.length === 0 ? reply : disarm(`${reply}\n\n${named.join("\n")}`);
}
