import { z } from "zod";
import { wakeMode } from "./common.ts";
import { ignoreSelfSchema, limitsSchema } from "./limits.ts";
import { PATH_PATTERN, PRESET_NAME, runFields, secrets, senderFields } from "./mapping.ts";

const presetName = z
  .string()
  .regex(PRESET_NAME, "use lower-case letters, digits and `-`")
  .meta({ preset: true });

const presetUse = z.strictObject({
  use: presetName.describe("The preset."),
  enabled: z
    .boolean()
    .optional()
    .describe("`false` disables its mappings; the path and its authentication stay."),
  secret: secrets
    .optional()
    .describe(
      "The signing secret, or several during a rotation. Required if the preset has a scheme, unless `auth` is `token`.",
    ),
  auth: z
    .literal("token")
    .optional()
    .describe("Accept the hook token instead of the sender's signature."),
  ...senderFields,
  path: z.string().regex(PATH_PATTERN).optional().describe("Another path than the preset's own."),
  maxBodyBytes: z.int().positive().optional().describe("The largest body of its path."),
  events: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe("Only these events, such as `issue.opened` or `issue`; others are skipped."),
  agentId: z.string().optional().describe("The agent that takes the turns."),
  channel: z.string().optional().describe("The channel of the replies."),
  to: z.string().optional().describe("The recipient on that channel."),
  wakeMode: wakeMode
    .optional()
    .describe(
      "`now` starts a heartbeat after each run. Default: as the preset says, `next-heartbeat` in all that ship.",
    ),
  deliver: z.boolean().optional().describe("Whether replies are sent to a channel."),
  model: z.string().optional().describe("The model of the turns."),
  tools: z.array(z.string()).optional().describe("Default: `hooks.tools`."),
  limits: limitsSchema.optional().describe("Limits of all its mappings together."),
  ignoreSelf: ignoreSelfSchema
    .pick({ accounts: true, marker: true })
    .optional()
    .describe("Skip events that the agent itself has caused."),
  ...runFields,
  shadow: z.boolean().optional().describe("Record what would be done, and do nothing."),
});
export type PresetUse = z.output<typeof presetUse>;

/** Presets by name, or with options. */
export const presetsSchema = z
  .array(z.union([presetName, presetUse]))
  .default([])
  .describe("Presets to enable, by name or as `{ use, secret, path, events, … }`.");

/** Returns the name of the preset that an entry of `hooks.presets` enables. */
export const getPresetName = (entry: string | Pick<PresetUse, "use">): string =>
  typeof entry === "string" ? entry : entry.use;
