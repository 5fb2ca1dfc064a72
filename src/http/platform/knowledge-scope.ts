import type { KnowledgeSearch } from "../../actions/knowledge.ts";
import type { DocumentRecord, Knowledge } from "../../knowledge/types.ts";
import type { ApiKey, ApiKeys } from "./keys.ts";

/**
 * Who may search a document. One that names no agents is for every agent that the key of its upload may use at the time
 * of the question: all of the tenant where that is every agent, else it is marked with the key. No agent's id has a colon.
 */
const PREFIX = "key:";
const markOf = ({ id }: Pick<ApiKey, "id">): string => PREFIX + id;

/** What an upload's document is marked with. */
export function audienceOf(key: ApiKey, asked: readonly string[]): readonly string[] {
  if (asked.length > 0) return [...new Set(asked)];
  return key.agents ? [markOf(key)] : [];
}

/** The marks by which these agents find documents of a tenant. */
export async function marksOf(agents: readonly string[], tenant: string, keys: Pick<ApiKeys, "list">): Promise<string[]> {
  const theirs = (await keys.list()).filter((key) => key.tenant === tenant && (key.agents?.some((id) => agents.includes(id)) ?? true));
  return [...agents, ...theirs.map(markOf)];
}

/** What a key reaches: undefined for all of its tenant. */
export async function scopeOf(key: ApiKey, keys: Pick<ApiKeys, "list">): Promise<readonly string[] | undefined> {
  return key.agents && marksOf(key.agents, key.tenant, keys);
}

export const isVisible = ({ agentIds }: DocumentRecord, scope: readonly string[] | undefined): boolean =>
  scope === undefined || agentIds.length === 0 || agentIds.some((mark) => scope.includes(mark));

/** The agents that a document's marks stand for now. */
export async function agentsShown(marks: readonly string[], keys: Pick<ApiKeys, "list">): Promise<string[]> {
  if (!marks.some((mark) => mark.startsWith(PREFIX))) return [...marks];
  const all = await keys.list();
  const agentsOf = (mark: string): readonly string[] => all.find((key) => markOf(key) === mark)?.agents ?? [];
  return [...new Set(marks.flatMap((mark) => (mark.startsWith(PREFIX) ? agentsOf(mark) : [mark])))];
}

/** Whether all that may search a document are agents of the key's: what is also others' is not its to take away. */
export async function isOwn({ agentIds }: DocumentRecord, { agents }: ApiKey, keys: Pick<ApiKeys, "list">): Promise<boolean> {
  if (!agents) return true;
  const shown = await agentsShown(agentIds, keys);
  return shown.length > 0 && shown.every((id) => agents.includes(id));
}

/** The documents as a turn sees them: those that its agent may search. */
export function knowledgeFor(knowledge: Pick<Knowledge, "search" | "has">, keys: Pick<ApiKeys, "list">): KnowledgeSearch {
  return {
    has: async ({ tenant, agentId }) => knowledge.has({ tenant, agentIds: await marksOf([agentId], tenant, keys) }),
    search: async ({ agentId, ...query }) => knowledge.search({ ...query, agentIds: await marksOf([agentId], query.tenant, keys) }),
  };
}
