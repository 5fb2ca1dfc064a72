import { z } from "zod";
import { durationOr, idText, list, optionalField, section, withDefault } from "./common.ts";

const text = z.string().trim().min(1);
/** An id as channels give it; a number may stand without quotes. */
const channelId = z
  .union([text, z.int()], "must be an id: text, or a whole number that is not too long to be exact")
  .transform(String);

export const sessionsSchema = section(
  "Which conversation a direct message joins, and which messages are answered together.",
  {
    dmScope: withDefault(
      z.enum(["per-person", "shared"]),
      "per-person",
      "`per-person` gives each person but the owner a conversation of their own; `shared` puts all direct messages into the main session.",
    ),
    messages: withDefault(
      z.enum(["collect", "separate"]),
      "collect",
      "Messages that follow each other quickly or arrive during a turn: `collect` makes one turn of them, `separate` answers each.",
    ),
    quietTime: durationOr("800ms").describe(
      "So long after the newest message a turn begins, unless `messages` is `separate`.",
    ),
  },
);

const channelIds = z.union(
  [channelId.transform((id) => [id]), z.array(channelId)],
  "must be an id or a list of ids",
);

export const ownerSchema = optionalField(
  z.record(text, channelIds),
  "The owner's ids, by channel. Default: the only person in allowFrom, if each kind of channel has one.",
);

const bindingSchema = z.strictObject({
  channel: text.describe("A channel's id or another name of it."),
  account: optionalField(text, "One of its `accounts`. Default: all."),
  room: optionalField(
    channelId,
    "The id of a group or conversation, as `to` gives it. Default: all.",
  ),
  person: optionalField(channelId, "The id of who writes, as in allowFrom. Default: everybody."),
  agent: text.describe("The agent that answers."),
  choices: optionalField(
    z.array(text),
    "Further agents, to which people may switch their conversation with `/agent <id>`. Default: none.",
  ),
});

export const bindingsSchema = list(
  bindingSchema,
  "Which agent answers in which room or to which person: the first entry that fits a message counts; if none fits, the first agent answers.",
);

export const peopleSchema = list(
  z
    .object({ id: idText.describe("Names the person.") })
    .catchall(channelIds)
    .describe("Besides `id`: the person's ids, by channel."),
  "People who write on several channels: `{ id, <channel>: <the person's id or ids there> }`. Their direct messages share one conversation once the person has linked the channels with `/link`.",
);
