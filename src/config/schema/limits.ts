import { z } from "zod";
import {
  list,
  optionalField,
  optionalSection,
  positive,
  secretSchema,
  text,
  withDefault,
} from "./common.ts";

/** An amount of money. Input: `"5 USD"`. Output: US dollars. */
const money = z.string().transform((text, context) => {
  const amount = Number(/^(\d+(?:\.\d+)?) ?USD$/.exec(text.trim())?.[1]);
  if (amount > 0) return amount;
  context.addIssue({ code: "custom", message: 'write an amount of US dollars such as "5 USD"' });
  return z.NEVER;
});

/** Limits of what a hook may spend. Work over a limit waits and is not lost. */
export const limitsSchema = z.strictObject({
  runsPerHour: optionalField(positive, "Runs that start within any hour; more are parked."),
  concurrent: optionalField(positive, "Runs at the same time; more are parked."),
  tokensPerDay: optionalField(positive, "Tokens within any 24 hours; then runs are parked."),
  budget: optionalSection("Costs of runs; each model needs a price (`models.prices`).", {
    perDay: money.describe("Costs within any 24 hours, such as `5 USD`; then runs are parked."),
  }),
  queue: optionalField(positive, "Runs that may wait before hooks are answered 503."),
});
export type LimitsConfig = z.output<typeof limitsSchema>;

/** Events that arrive together become one run. */
export const coalesceSchema = z
  .strictObject({
    key: withDefault(z.string(), "", "Events with the same key are a batch. A template."),
    windowSeconds: z
      .number()
      .positive()
      .max(86_400)
      .describe("The run starts this long after the last event."),
    maxSeconds: optionalField(
      z.number().positive().max(86_400),
      "At the latest this long after the first event; default ten times windowSeconds.",
    ),
    maxEvents: withDefault(
      z.int().min(2).max(1000),
      100,
      "At the latest with this number of events.",
    ),
  })
  .refine(
    ({ windowSeconds, maxSeconds }) => maxSeconds === undefined || maxSeconds >= windowSeconds,
    {
      path: ["maxSeconds"],
      message: "must not be less than windowSeconds",
    },
  );

/** Which events the agent itself has caused: they are skipped, with a record. */
export const ignoreSelfSchema = z.strictObject({
  from: list(text, "Fields that name who caused the event, such as `sender.login`."),
  text: list(text, "Fields that may carry the marker, such as `comment.body`."),
  accounts: list(text, "The agent's accounts at the sender: logins or ids."),
  marker: optionalField(
    z.string().min(4).max(100),
    "Text that is added to the replies of this hook's runs.",
  ),
});

/** The receiver of the receipt when a run has ended. */
export const callbackSchema = z.strictObject({
  url: z
    .url({ protocol: /^https?$/ })
    .describe("The address; its host must be in hooks.callbackHosts."),
  secret: secretSchema.describe(
    "The signing secret (Standard Webhooks): base64, also with `whsec_` before it.",
  ),
});
export type Callback = z.output<typeof callbackSchema>;
