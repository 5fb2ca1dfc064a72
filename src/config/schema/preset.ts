import { z } from "zod";
import { list, optionalField, positive, text, wakeMode } from "./common.ts";
import { ignoreSelfSchema, limitsSchema } from "./limits.ts";
import { PATH_PATTERN, PRESET_NAME, runFields, secrets, senderFields } from "./mapping.ts";

const presetName = z
  .string()
  .regex(PRESET_NAME, "use lower-case letters, digits and `-`")
  .meta({ offers: "presets" });

const presetUse = z.strictObject({
  use: presetName.describe("The preset."),
  enabled: optionalField(
    z.boolean(),
    "`false` disables its mappings; the path and its authentication stay.",
  ),
  secret: optionalField(
    secrets,
    "The signing secret, or several during a rotation. Required if the preset has a scheme, unless `auth` is `token`.",
  ),
  auth: optionalField(
    z.literal("token"),
    "Accept the hook token instead of the sender's signature.",
  ),
  ...senderFields,
  path: optionalField(z.string().regex(PATH_PATTERN), "Another path than the preset's own."),
  maxBodyBytes: optionalField(positive, "The largest body of its path."),
  events: optionalField(
    z.array(text).min(1),
    "Only these events, such as `issue.opened` or `issue`; others are skipped.",
  ),
  agentId: optionalField(z.string(), "The agent that takes the turns."),
  channel: optionalField(z.string(), "The channel of the replies."),
  to: optionalField(z.string(), "The recipient on that channel."),
  wakeMode: optionalField(
    wakeMode,
    "`now` starts a heartbeat after each run. Default: as the preset says, `next-heartbeat` in all that ship.",
  ),
  deliver: optionalField(z.boolean(), "Whether replies are sent to a channel."),
  model: optionalField(z.string(), "The model of the turns."),
  tools: optionalField(z.array(z.string()), "Default: `hooks.tools`."),
  limits: optionalField(limitsSchema, "Limits of all its mappings together."),
  ignoreSelf: optionalField(
    ignoreSelfSchema.pick({ accounts: true, marker: true }),
    "Skip events that the agent itself has caused.",
  ),
  ...runFields,
  shadow: optionalField(z.boolean(), "Record what would be done, and do nothing."),
});
export type PresetUse = z.output<typeof presetUse>;

/** Presets by name, or with options. */
export const presetsSchema = list(
  z.union([presetName, presetUse]),
  "Presets to enable, by name or as `{ use, secret, path, events, … }`.",
);

/** Returns the name of the preset that an entry of `hooks.presets` enables. */
export const getPresetName = (entry: string | Pick<PresetUse, "use">): string =>
  typeof entry === "string" ? entry : entry.use;
