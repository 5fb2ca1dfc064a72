import { disarm } from "../agent/disarm.ts";
import { z } from "zod";
import type { TurnExtension } from "../agent/extensions.ts";
import type { Agent } from "../agent/types.ts";
import { oneLine } from "../core/text.ts";
import type { ContextProvider, Part, Tool } from "../contract/kinds.ts";

/** What a turn needs of a piece of a document that a search has found. */
export interface Citation {
  documentId: string;
  chunkId: string;
  filename: string;
  title: string | null;
  page: number | null;
  score: number;
  text: string;
}

/** The search for passages. A turn without it has none. */
export interface KnowledgeSearch {
  /** False: nothing could be found, so that the turn need not look. Not there: something may. */
  has?(scope: { tenant: string; agentId: string }): Promise<boolean>;
  search(query: { tenant: string; agentId: string; text: string; limit: number; perDocument?: number }): Promise<readonly Citation[]>;
}

const LIMIT = 8;
/** Of the passages that a turn is given without asking: one long document leaves room for others. */
const PER_DOCUMENT = 4;
const MAX_QUESTION = 2_000;
const INPUT = z.strictObject({ query: z.string() });
const PASSAGES_LEAD = "Passages from your documents that may help with what follows, each with its number:";
const DESCRIPTION =
  "Searches the documents that were uploaded for you. Give a question or a few telling words; the passages that fit best come back, each with its number. Name the numbers of those you used, as [1].";

/** What a turn has of documents. */
export interface TurnKnowledge {
  /** The passages and the tool; empty if the agent has no documents. */
  extensions: TurnExtension[];
  /** All passages that the model was given, in the order of their numbers. */
  citations: Citation[];
}

/** Whose documents a turn may search. */
export interface KnowledgeScope {
  agent: Agent;
  tenant: string;
}

const renderName = ({ filename, page }: Citation): string => `${oneLine(filename)}${page === null ? "" : `, page ${page}`}`;
const renderOrigin = (passage: Citation): string => `document ${renderName(passage)}`;

/** Returns what an agent's documents add to a turn: passages for an agent with `knowledge: "auto"`, and the tool that searches for more. */
export async function createTurnKnowledge(
  { agent, tenant }: KnowledgeScope,
  knowledge: KnowledgeSearch | undefined,
): Promise<TurnKnowledge> {
  const citations: Citation[] = [];
  if (!knowledge || agent.knowledge === "off") return { extensions: [], citations };
  const scope = { tenant, agentId: agent.id };
  // If that cannot be found out, the search below fails with the reason.
  if (knowledge.has && !(await knowledge.has(scope).catch(() => true))) return { extensions: [], citations };
  const find = async (text: string, limits: { perDocument?: number } = {}): Promise<readonly Citation[]> => {
    if (text.trim() === "") return [];
    const found = await knowledge.search({ ...scope, text: text.slice(0, MAX_QUESTION), limit: LIMIT, ...limits });
    const known = new Set(citations.map(({ chunkId }) => chunkId));
    citations.push(...found.filter(({ chunkId }) => !known.has(chunkId)));
    return found;
  };
  const getCitationNumber = ({ chunkId }: Citation): number => citations.findIndex((citation) => citation.chunkId === chunkId) + 1;
  const context: ContextProvider = async ({ question }) => {
    const found = await find(question, { perDocument: PER_DOCUMENT });
    const shown = found.flatMap((passage): Part[] => [
      { text: `[${getCitationNumber(passage)}]`, from: "operator" },
      { text: passage.text, from: "outside", label: renderOrigin(passage) },
    ]);
    return found.length === 0 ? [] : [{ text: PASSAGES_LEAD, from: "operator" }, ...shown];
  };
  const search: Tool<typeof INPUT> = {
    name: "knowledge_search",
    description: DESCRIPTION,
    input: INPUT,
    readOnly: true,
    idempotent: true,
    async execute({ query }) {
      const found = await find(query);
      if (found.length === 0) return "Nothing was found.";
      return found.map((passage) => `[${getCitationNumber(passage)}] ${renderOrigin(passage)}\n${passage.text}`).join("\n\n");
    },
  };
  const extension: TurnExtension = {
    id: "knowledge",
    tools: [search],
    warning: "the documents could not be searched; the turn went on without passages",
    ...(agent.knowledge === "auto" && { context }),
  };
  return { extensions: [extension], citations };
}

/** Adds the documents that a reply names by number, one a line, for readers who are shown no citations. */
export function withSources(reply: string, citations: readonly Citation[]): string {
  const lines = citations.map((passage, index) => [`[${index + 1}]`, renderName(passage)] as const);
  const named = lines.filter(([number]) => reply.includes(number)).map((line) => line.join(" "));
  // A document's name is outside text as well.
  return named.length === 0 ? reply : disarm(`${reply}\n\n${named.join("\n")}`);
}
