import type { Knowledge } from "../knowledge/types.ts";
import type { ExecutorDeps } from "../turns/context.ts";
import type { KnowledgeSearch } from "../turns/knowledge.ts";
import { createApiKeys, knowledgeFor, type ApiKeys } from "./api-keys.ts";
import { createChats } from "./chats.ts";
import { createEarlierRuns, type EarlierRuns } from "./history.ts";
import type { Chats } from "./types.ts";

/** The parts that users of the API have. */
export interface ChatParts {
  keys: ApiKeys;
  /** Their turns, which are not queued, since a person waits for them. */
  chats: Chats;
  earlierRuns: EarlierRuns;
  /** The documents that turns search: an agent finds what its users have uploaded for it. */
  documents: KnowledgeSearch;
}

interface ChatContext extends Omit<ExecutorDeps, "documents"> {
  knowledge: Knowledge;
}

export function openChats(context: ChatContext): ChatParts {
  const keys = createApiKeys(context);
  const documents = knowledgeFor(context.knowledge, keys);
  return {
    keys,
    chats: createChats({ ...context, documents }),
    earlierRuns: createEarlierRuns(context.store),
    documents,
  };
}
