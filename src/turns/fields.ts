import { z } from "zod";
import { thinking, wakeMode } from "../config/schema/common.ts";
import type { Issue } from "../core/errors.ts";

/** The body of `POST {base}/wake`. */
export const wakeBody = z.object({
  text: z
    .string()
    .refine((text) => text.trim() !== "", "must not be blank")
    .describe("What happened."),
  mode: wakeMode.default("now").describe("`now` starts a heartbeat immediately."),
  agentId: z
    .string()
    .optional()
    .describe("The agent whose main session gets the event; default the first of `agents.list`."),
  idempotencyKey: z
    .string()
    .min(1)
    .max(256)
    .optional()
    .describe("A repeat with the same key is answered as the first."),
});

/** Fields of an agent action besides its message: of requests, templates and transforms alike. */
export const agentFields = z.object({
  name: z.string().optional().describe("The hook's name in summaries; default `Hook`."),
  agentId: z.string().optional().describe("The agent that takes the turn."),
  sessionKey: z
    .string()
    .optional()
    .describe("Turns with the same key are one conversation, in order."),
  wakeMode: wakeMode
    .optional()
    .describe("Whether the main session's heartbeat follows immediately."),
  deliver: z.boolean().optional().describe("Send the reply to a channel."),
  channel: z.string().optional().describe("The reply's channel; default `last`."),
  to: z.string().optional().describe("The recipient: the reply goes to no other one."),
  model: z.string().optional().describe("`<provider>/<model>` or an alias."),
  thinking: thinking.optional().describe("How much the model thinks."),
  timeoutSeconds: z.number().positive().optional().describe("Time for the turn."),
});
export type AgentFields = z.output<typeof agentFields>;

/** The body of `POST {base}/agent`. */
export const agentBody = agentFields.extend({
  message: z
    .string()
    .refine((text) => text.trim() !== "", "must not be blank")
    .describe("What the agent is asked."),
  idempotencyKey: z
    .string()
    .min(1)
    .max(256)
    .optional()
    .describe("A repeat with the same key is answered as the first."),
});

/** Returns the fields of a body without those that are null: null is treated as absent. */
export function withoutNulls(body: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}

/** zod's problems as ours: one entry for each, with the dotted path of the field. */
export function toIssues(error: z.ZodError): Issue[] {
  return error.issues.map((issue) => ({ path: issue.path.join("."), message: issue.message }));
}

/** A warning for each field that the schema does not know. */
export function unknownFields(body: Record<string, unknown>, schema: z.ZodObject): string[] {
  const known = schema.shape;
  const warnings: string[] = [];
  for (const key of Object.keys(body)) {
    if (!Object.hasOwn(known, key))
      warnings.push(`the field "${key.slice(0, 64)}" is not known and was ignored`);
  }
  return warnings;
}
