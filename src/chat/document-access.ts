import type { KnowledgeSearch } from "../runs/knowledge.ts";
import type { Access, Knowledge } from "../knowledge/types.ts";
import type { ApiKey, ApiKeys } from "./api-keys.ts";

/**
 * Who may search a document. A document that names no agents is for every agent that the key of its upload may use at the
 * time of the question: if that is every agent, for the whole tenant, else it is marked with the key. No agent's id has a colon.
 */
const PREFIX = "key:";
const toMark = ({ id }: Pick<ApiKey, "id">): string => PREFIX + id;

/** What an upload's document is marked with. */
export function getAudience(key: ApiKey, asked: readonly string[]): readonly string[] {
  if (asked.length > 0) return [...new Set(asked)];
  return key.agents ? [toMark(key)] : [];
}

/** The marks by which these agents find documents of a tenant. */
export async function marksFor(
  agents: readonly string[],
  tenant: string,
  keys: Pick<ApiKeys, "list">,
): Promise<string[]> {
  const theirs = (await keys.list()).filter(
    (key) => key.tenant === tenant && (key.agents?.some((id) => agents.includes(id)) ?? true),
  );
  return [...agents, ...theirs.map(toMark)];
}

/** What a key may see and change; undefined for all of its tenant. */
export async function getAccess(
  key: ApiKey,
  keys: Pick<ApiKeys, "list">,
): Promise<Access | undefined> {
  const { agents, tenant } = key;
  if (!agents) return undefined;
  const within = (await keys.list()).filter(
    (one) => one.tenant === tenant && one.agents?.every((id) => agents.includes(id)),
  );
  return { sees: await marksFor(agents, tenant, keys), owns: [...agents, ...within.map(toMark)] };
}

/** The agents that a document's marks stand for now. */
export async function listShownAgents(
  marks: readonly string[],
  keys: Pick<ApiKeys, "list">,
): Promise<string[]> {
  if (!marks.some((mark) => mark.startsWith(PREFIX))) return [...marks];
  const all = await keys.list();
  const agentsOf = (mark: string): readonly string[] =>
    all.find((key) => toMark(key) === mark)?.agents ?? [];
  return [...new Set(marks.flatMap((mark) => (mark.startsWith(PREFIX) ? agentsOf(mark) : [mark])))];
}

/** The documents as a turn sees them: those that its agent may search. */
export function knowledgeFor(
  knowledge: Pick<Knowledge, "search" | "has">,
  keys: Pick<ApiKeys, "list">,
): KnowledgeSearch {
  return {
    has: async ({ tenant, agentId }) =>
      knowledge.has({ tenant, agentIds: await marksFor([agentId], tenant, keys) }),
    search: async ({ agentId, ...query }) =>
      knowledge.search({ ...query, agentIds: await marksFor([agentId], query.tenant, keys) }),
  };
}
