import { ChannelError, type createRest } from "#channel-kit";
import type { OutgoingFile } from "#plugin";

/** Files that WhatsApp shows as images, or plays as recordings; the sizes are the vendor's. */
const IMAGES = new Set(["image/jpeg", "image/png"]);
const MAX_IMAGE = 5_000_000;
const AUDIO = new Set(["audio/mpeg", "audio/mp4", "audio/aac", "audio/amr"]);
const MAX_AUDIO = 16_000_000;
const MAX_DOCUMENT = 100_000_000;
/** Other types are refused as documents. */
const DOCUMENT = /^(?:text\/|application\/(?:json|pdf|vnd\.openxmlformats-officedocument\.))/;

/** Returns the type of message and the media type under which WhatsApp takes a file; undefined if it does not. */
export function toMedia({
  mediaType,
  data,
}: Pick<OutgoingFile, "mediaType" | "data">): { type: string; mime: string } | undefined {
  if (IMAGES.has(mediaType) && data.length <= MAX_IMAGE) return { type: "image", mime: mediaType };
  if (AUDIO.has(mediaType) && data.length <= MAX_AUDIO) return { type: "audio", mime: mediaType };
  if (!DOCUMENT.test(mediaType) || data.length > MAX_DOCUMENT) return undefined;
  // Of texts only plain ones are known; the name keeps its ending.
  return { type: "document", mime: /^text\/|json$/.test(mediaType) ? "text/plain" : mediaType };
}

/** Uploads a file, and gives the content of the message that shows it. Nobody sees it before. */
export async function uploadMedia(
  call: ReturnType<typeof createRest>,
  phoneNumberId: string,
  { name, data }: OutgoingFile,
  { type, mime }: { type: string; mime: string },
  signal: AbortSignal,
): Promise<object> {
  const form = new FormData();
  form.append("messaging_product", "whatsapp");
  form.append("type", mime);
  form.append("file", new Blob([data], { type: mime }), name);
  const id = (await call<{ id?: unknown }>(`${phoneNumberId}/media`, signal, form))?.id;
  if (typeof id !== "string")
    throw new ChannelError({ status: "failed", reason: "WhatsApp gave no id of the file" });
  return { type, [type]: { id, ...(type === "document" && { filename: name }) } };
}
