import type { Config } from "../config/schema/index.ts";
import type { LostMessage } from "../contract/channel.ts";
import type { Channels } from "../delivery/channels.ts";
import type { PartContext } from "../store/context.ts";
import { Approvals } from "./approvals.ts";
import { createPeople } from "./links.ts";
import { Memory, type SearchTexts } from "./notes.ts";
import { createQuestions, recordLost } from "./notify.ts";
import { createApprovalRules } from "./rules.ts";

/** The people that the gateway knows, and their decisions. */
export type PeopleParts = ReturnType<typeof openPeople>;

interface PeopleContext extends PartContext {
  snapshot(): { config: Config; channels: Channels; approvers: readonly string[] };
  searchTexts: SearchTexts;
}

export function openPeople(context: PeopleContext) {
  const { snapshot, searchTexts } = context;
  const current = { ...context, channels: () => snapshot().channels };
  const questions = createQuestions(context);
  return {
    people: createPeople(current),
    memory: new Memory(context, searchTexts),
    approvals: new Approvals({ ...context, approvers: () => snapshot().approvers, questions }),
    /** Calls that people have approved for good. */
    rules: createApprovalRules(context),
    /** Plans what asks people about calls. */
    questions,
    /** Records that a message did not arrive. */
    notDelivered: (channel: string, message: LostMessage): Promise<void> =>
      recordLost(channel, message, current),
  };
}
