import { z } from "zod";
import { DM_POLICIES } from "../contract/channel.ts";
import { recipients, type Form, type Parse } from "./recipients.ts";

/** A token, a password or the like; white space around it is never meant. */
export const secret = (describe: string) => z.string().trim().min(1).describe(describe);

/** The address of an API, `http` or `https`; what follows it begins with a slash. With `fallback` it need not be given. */
export function httpUrl(describe: string): z.ZodType<string, string>;
export function httpUrl(
  describe: string,
  fallback: string,
): z.ZodPrefault<z.ZodType<string, string>>;
export function httpUrl(describe: string, fallback?: string) {
  const url: z.ZodType<string, string> = z
    .url({ protocol: /^https?$/ })
    .transform((text) => text.replace(/\/+$/, ""));
  // `default` stands behind the transform, where the option tables of the docs do not see it.
  return (fallback === undefined ? url : url.prefault(fallback)).describe(describe);
}

/** Whether people see that the agent is typing: the setting `typing`, which the gateway reads. `more` is added to its description. */
export const typingSetting = (more = "") =>
  z
    .boolean()
    .default(true)
    .describe(`Whether people see that the agent is typing while it works on an answer.${more}`);

/** Whether people see the agent's text while it is written: the setting `streaming`, which the gateway reads. */
export const streamingSetting = () =>
  z
    .boolean()
    .default(false)
    .describe(
      "Whether people see the text of an answer while it is written, in a message that is edited.",
    );

/** Who may speak on a channel, and where its replies go. The section is described by what their forms look like. */
export interface People {
  /** The ways to write an entry of `allowFrom`, kept in the form in which `from` gives it. */
  person: Form | readonly Form[];
  parseRecipient: Parse;
}

function checked(parse: Parse) {
  return (text: string | number, context: z.RefinementCtx): string => {
    const parsed = parse(String(text));
    if (parsed.ok) return parsed.to;
    context.addIssue({ code: "custom", message: parsed.message });
    return z.NEVER;
  };
}

/** The section of a channel that people write to: its own settings, `allowFrom` and `defaultTo`. The host gives both to the channel. */
export function channelConfig<T extends z.ZodRawShape>(own: T, { person, parseRecipient }: People) {
  const parsePerson = recipients(...[person].flat());
  const entry = z
    .union([z.string(), z.int()], `must be ${parsePerson.like}`)
    .transform(checked(parsePerson));
  const to = parseRecipient.like === undefined ? "" : `: ${parseRecipient.like}`;
  return z.strictObject({
    ...own,
    allowFrom: z
      .array(entry)
      .prefault([])
      .describe(`Who may speak to the agent, each ${parsePerson.like}. Empty: no person may.`),
    dmPolicy: z
      .enum(DM_POLICIES)
      .default("allowlist")
      .describe(
        "Who may write direct messages: `allowlist`, the people in `allowFrom`; `pairing`, also those whom you approve; `open`, everybody; `closed`, no person.",
      ),
    defaultTo: z
      .string()
      .transform(checked(parseRecipient))
      .optional()
      .describe(`The recipient if none is named${to}.`),
  });
}
