import { z } from "zod";
import { switchField, text } from "../../config/schema/common.ts";

/** The most events that a proposal is made from. */
const MAX_EVENTS = 20;
/** The most that the operator says. */
const MAX_SAID = 2000;

/** The request of a proposal. */
export const proposalRequest = z.strictObject({
  name: text.describe("The name of the new mapping file."),
  write: switchField("False: nothing is written; the answer has the text of the file.", true),
  events: z.array(text).min(1).max(MAX_EVENTS).describe("Ids of recorded events of one hook."),
  say: text.max(MAX_SAID).optional().describe("The operator's words."),
  model: z
    .union([text, z.literal(false)])
    .optional()
    .describe("False: no model. Default: the model of the default agent."),
  agent: text.optional(),
  deliver: z
    .union([z.literal(false), z.strictObject({ channel: text, to: text.optional() })])
    .optional()
    .describe("False: no delivery."),
});

export type ProposalRequest = z.infer<typeof proposalRequest>;
