import type { OutgoingFile } from "#plugin";

/** A file as the daemon takes it: a data URI with the name of the file. */
export const toDataUri = ({ name, mediaType, data }: OutgoingFile): string =>
  `data:${mediaType};filename=${encodeURIComponent(name)};base64,${Buffer.from(data).toString("base64")}`;
