import type { RawFile } from "@discordjs/rest";
import type { OutgoingFile } from "#plugin";

/** The largest file that a bot may send without a paid server, in bytes. */
export const MAX_FILE = 10_000_000;
export const TOO_LARGE = {
  status: "unsupported",
  reason: "Discord takes files of 10 MB at most",
} as const;

/** A file as the SDK takes it: it becomes a part of the message's form. */
export const toRawFile = ({ name, mediaType, data }: OutgoingFile): RawFile => ({
  name,
  data,
  contentType: mediaType,
});
