import type { Config } from "../config/schema/index.ts";
import type { LostMessage } from "../contract/channel.ts";
import type { Channels } from "../delivery/channels.ts";
import type { PartContext } from "../store/context.ts";
import { Approvals, type Questions } from "./approvals.ts";
import { createPeople, type KnownPeople } from "./links.ts";
import { Memory, type SearchTexts } from "./notes.ts";
import { createQuestions, recordLost } from "./notify.ts";
import { createApprovalRules, type ApprovalRules } from "./rules.ts";

/** The people that the gateway knows, and their decisions. */
export interface PeopleParts {
  people: KnownPeople;
  memory: Memory;
  approvals: Approvals;
  /** Calls that people have approved for good. */
  rules: ApprovalRules;
  /** Plans what asks people about calls. */
  questions: Questions;
  /** Records that a message did not arrive. */
  notDelivered(channel: string, message: LostMessage): Promise<void>;
}

interface PeopleContext extends PartContext {
  snapshot(): { config: Config; channels: Channels; approvers: readonly string[] };
  searchTexts: SearchTexts;
}

export function openPeople(context: PeopleContext): PeopleParts {
  const { snapshot, searchTexts } = context;
  const current = { ...context, channels: () => snapshot().channels };
  const questions = createQuestions(context);
  return {
    people: createPeople(current),
    memory: new Memory(context, searchTexts),
    approvals: new Approvals({
      ...context,
      approvers: () => snapshot().approvers,
      questions,
    }),
    rules: createApprovalRules(context),
    questions,
    notDelivered: (channel, message) => recordLost(channel, message, current),
  };
}
