import type { OutgoingFile } from "#plugin";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif"]);
/** An activity may have about 100 kB, and the image is in it as base64. */
const MAX_IMAGE = 60_000;
/** Other files need the consent of the person, who uploads them to their own OneDrive: not in groups, and not without a click. */
export const ONLY_SMALL_IMAGES = {
  status: "unsupported",
  reason: "on Teams only PNG, JPEG and GIF images of up to 60 kB can be sent",
} as const;

/** An activity with an image in it; undefined if the file is no small image. */
export function toImageActivity({
  name,
  mediaType,
  data,
  replyTo,
}: OutgoingFile): object | undefined {
  if (!IMAGES.has(mediaType) || data.length > MAX_IMAGE) return undefined;
  const contentUrl = `data:${mediaType};base64,${Buffer.from(data).toString("base64")}`;
  return {
    type: "message",
    attachments: [{ contentType: mediaType, contentUrl, name }],
    replyToId: replyTo,
  };
}
