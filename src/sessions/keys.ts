import type { SessionRef } from "../store/types.ts";

/** The key of the one main session. */
export const MAIN_KEY = "main";

/** The main session of an agent. */
export function mainSession(agentId: string): SessionRef {
  return { agentId, origin: "main", key: MAIN_KEY };
}
