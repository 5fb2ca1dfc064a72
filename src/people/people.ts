import { createAgentChoices, type AgentChoices } from "./agent-choices.ts";
import { createPersonLinks, type PersonLinks } from "./links.ts";
import type { PeopleDeps } from "./notices.ts";
import { createPairings, type Pairings } from "./pairings.ts";

/** What is known of the people on channels beside the config. All gateways on one database have the same. */
export interface KnownPeople {
  readonly pairings: Pairings;
  readonly agentChoices: AgentChoices;
  readonly links: PersonLinks;
}

/** Creates what a store keeps of people. */
export const createPeople = (deps: PeopleDeps): KnownPeople => ({
  pairings: createPairings(deps),
  agentChoices: createAgentChoices(deps),
  links: createPersonLinks(deps),
});
