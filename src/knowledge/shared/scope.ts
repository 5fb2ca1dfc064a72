import type { SearchScope } from "../db/protocol.ts";
import { agentMark } from "../db/rows.ts";

/** Whether one of the agents may see a document; `$n` is null for all of the tenant's. */
export const visibleTo = (n: number): string =>
  `($${n}::text[] IS NULL OR d.agents = '' OR EXISTS (SELECT 1 FROM unnest($${n}::text[]) AS mark WHERE strpos(d.agents, mark) > 0))`;

export const marksOf = ({ agentIds }: SearchScope): string[] | null => agentIds?.map(agentMark) ?? null;
