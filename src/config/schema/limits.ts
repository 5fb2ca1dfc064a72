import { z } from "zod";
import { secretSchema } from "./common.ts";

/** An amount of money. Input: `"5 USD"`. Output: US dollars. */
const money = z.string().transform((text, context) => {
  const amount = Number(/^(\d+(?:\.\d+)?) ?USD$/.exec(text.trim())?.[1]);
  if (amount > 0) return amount;
  context.addIssue({ code: "custom", message: 'write an amount of US dollars such as "5 USD"' });
  return z.NEVER;
});

/** Limits of what a hook may spend. Work over a limit waits and is not lost. */
export const limitsSchema = z.strictObject({
  runsPerHour: z
    .int()
    .positive()
    .optional()
    .describe("Runs that start within any hour; more are parked until there is room."),
  concurrent: z
    .int()
    .positive()
    .optional()
    .describe("Runs at the same time; more are parked until one ends."),
  tokensPerDay: z
    .int()
    .positive()
    .optional()
    .describe("Tokens that runs use within any 24 hours; once they are used up, runs are parked."),
  budget: z
    .strictObject({
      perDay: money.describe(
        "What runs may cost within any 24 hours, such as `5 USD`; once it is used up, runs are parked.",
      ),
    })
    .optional()
    .describe("What runs may cost; each model has to have a price (`models.prices`)."),
  queue: z
    .int()
    .positive()
    .optional()
    .describe("Runs that may wait before hooks are answered 503."),
});
export type LimitsConfig = z.output<typeof limitsSchema>;

/** Events that arrive together become one run. */
export const coalesceSchema = z
  .strictObject({
    key: z
      .string()
      .default("")
      .describe("Events with the same key are collected together. A template."),
    windowSeconds: z
      .number()
      .positive()
      .max(86_400)
      .describe("The run starts once no event has come for so long."),
    maxSeconds: z
      .number()
      .positive()
      .max(86_400)
      .optional()
      .describe(
        "The run starts so long after the first event at the latest; default ten times windowSeconds.",
      ),
    maxEvents: z
      .int()
      .min(2)
      .max(1000)
      .default(100)
      .describe("The run starts immediately when it has this number of events."),
  })
  .refine(
    ({ windowSeconds, maxSeconds }) => maxSeconds === undefined || maxSeconds >= windowSeconds,
    {
      path: ["maxSeconds"],
      message: "must not be less than windowSeconds",
    },
  );
export type Coalesce = z.output<typeof coalesceSchema>;

/** Which events the agent itself has caused: they are skipped, with a record. */
export const ignoreSelfSchema = z.strictObject({
  from: z
    .array(z.string().min(1))
    .default([])
    .describe("Where the event names who caused it: paths such as `sender.login`."),
  text: z
    .array(z.string().min(1))
    .default([])
    .describe("Where the event has text that may carry the marker: paths such as `comment.body`."),
  accounts: z
    .array(z.string().min(1))
    .default([])
    .describe("The agent's own accounts with that sender: logins or ids."),
  marker: z
    .string()
    .min(4)
    .max(100)
    .optional()
    .describe("Text that the agent's replies carry; it is added to replies of this hook's runs."),
});
export type IgnoreSelf = z.output<typeof ignoreSelfSchema>;

/** The receiver of the receipt when a run has ended. */
export const callbackSchema = z.strictObject({
  url: z
    .url({ protocol: /^https?$/ })
    .describe("Where the receipt is posted; its host must be in hooks.callbackHosts."),
  secret: secretSchema.describe(
    "What it is signed with (Standard Webhooks): base64, also with `whsec_` before it.",
  ),
});
export type Callback = z.output<typeof callbackSchema>;
