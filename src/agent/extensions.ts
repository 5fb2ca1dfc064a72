import type { ContextProvider, Tool } from "../contract/kinds.ts";
import type { Offers } from "../contract/offers.ts";

/** What plugins offer to agents. */
export type AgentExtensions = Readonly<Pick<Offers, "tools" | "context" | "providers">>;

/** What one turn has besides: text before its input, and tools that it has whatever its agent's list says. */
export interface TurnExtension {
  id: string;
  context?: ContextProvider;
  tools: readonly Tool[];
  /** The run's warning if `context` fails. */
  warning: string;
}
