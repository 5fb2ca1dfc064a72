import type { OwnTool } from "../agent/types.ts";
import type { ChatRequest, KnowledgeSearch, Passage } from "./chat-types.ts";

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

const originOf = ({ filename, page }: Passage): string => `document ${filename}${page === null ? "" : `, page ${page}`}`;

/** The last thing the user said, which is what is looked for. */
function questionOf({ said }: ChatRequest): string {
  const last = said.findLast((message) => message.role === "user");
  if (last?.role !== "user") return "";
  return last.parts
    .flatMap((part) => (part.type === "text" ? [part.text] : []))
    .join("\n")
    .slice(0, MAX_QUESTION);
}

/** Looks up passages for a turn, and makes the tool with which the model looks up more. */
export async function gatherKnowledge(request: ChatRequest, knowledge: KnowledgeSearch | undefined): Promise<TurnKnowledge> {
  const gathered: TurnKnowledge = { passages: [], tools: [], citations: [], warnings: [] };
  const mode = request.agent.knowledge;
  if (!knowledge || mode === "off") return gathered;
  const scope = { tenant: request.caller.tenant, agentId: request.agent.id };
  // Where it cannot be told, the search below says so.
  if (knowledge.has && !(await knowledge.has(scope).catch(() => true))) return gathered;
  const find = async (text: string): Promise<readonly Passage[]> => {
    if (text.trim() === "") return [];
    const found = await knowledge.search({ ...scope, text, limit: LIMIT });
    const known = new Set(gathered.citations.map(({ chunkId }) => chunkId));
    gathered.citations.push(...found.filter(({ chunkId }) => !known.has(chunkId)));
    return found;
  };
  if (mode === "auto") {
    // A question without its passages is still a question.
    const found = await find(questionOf(request)).catch(() => {
      gathered.warnings.push("the documents could not be searched; the turn went on without passages");
      return [];
    });
    gathered.passages = found.map((passage) => ({ text: passage.text, origin: originOf(passage) }));
  }
  const numberOf = ({ chunkId }: Passage): number => gathered.citations.findIndex((citation) => citation.chunkId === chunkId) + 1;
  gathered.tools.push({
    name: "knowledge_search",
    description: DESCRIPTION,
    schema: { type: "object", properties: { query: { type: "string" } }, required: ["query"], additionalProperties: false },
    async run(input) {
      const { query } = input as { query?: unknown };
      const found = await find(typeof query === "string" ? query.slice(0, MAX_QUESTION) : "");
      if (found.length === 0) return "Nothing was found.";
      return found.map((passage) => `[${numberOf(passage)}] ${originOf(passage)}\n${passage.text}`).join("\n\n");
    },
  });
  return gathered;
}
