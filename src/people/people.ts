import { createAgentChoices, type AgentChoices } from "./agent-choices.ts";
import { createPairings, type PairingDeps, type Pairings } from "./pairings.ts";

/** What is known of the people on channels beside the config. All gateways on one database have the same. */
export interface KnownPeople {
  readonly pairings: Pairings;
  readonly agentChoices: AgentChoices;
}

/** Creates what a store keeps of people. */
export const createPeople = (deps: PairingDeps): KnownPeople => ({
  pairings: createPairings(deps),
  agentChoices: createAgentChoices(deps),
});
