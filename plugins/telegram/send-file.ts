import { ChannelError, sentResult } from "#channel-kit";
import type { FileSendResult, OutgoingFile, SendResult } from "#plugin";
import { type BotContext, fetchJson, getRefusal, sendToChat, toPlace } from "./send.ts";

/** The images that Telegram takes as photos: other ones, and larger ones, are sent as documents. */
const PHOTOS = new Set(["image/jpeg", "image/png"]);
const MAX_PHOTO = 10_000_000;
const MAX_DOCUMENT = 50_000_000;

interface ApiAnswer {
  ok?: boolean;
  result?: { message_id: number };
  error_code?: number;
}

/** Returns whether Telegram does not take an image as a photo: it may be too wide or too small. */
function isNoPhoto(error: unknown): boolean {
  const refusal = getRefusal(error);
  return refusal?.error_code === 400 && /photo|image/i.test(refusal.description);
}

/** Sends files by `sendPhoto` and `sendDocument`. The form has a known length, which servers between may ask for. */
export function createFilePost({
  config,
  fetch,
  log,
}: Pick<BotContext, "config" | "fetch" | "log">) {
  return async (file: OutgoingFile, signal: AbortSignal): Promise<FileSendResult> => {
    const { name, mediaType, data } = file;
    if (data.length > MAX_DOCUMENT)
      return { status: "unsupported", reason: "Telegram takes files of 50 MB at most" };
    const isPhoto = PHOTOS.has(mediaType) && data.length <= MAX_PHOTO;
    const { chat, topic, reply } = toPlace(file);
    const send = async (where: string, asPhoto: boolean): Promise<SendResult> => {
      const body = new FormData();
      body.append("chat_id", where);
      for (const [field, value] of Object.entries({ ...topic, ...reply }))
        body.append(field, JSON.stringify(value));
      body.append(asPhoto ? "photo" : "document", new Blob([data], { type: mediaType }), name);
      const method = asPhoto ? "sendPhoto" : "sendDocument";
      const url = `${config.apiUrl}/bot${config.token}/${method}`;
      const init = { method: "POST", body, redirect: "manual", signal } as const;
      const answer = (await (await fetchJson(fetch)(url, init)).json()) as ApiAnswer;
      const { ok, result, ...refusal } = answer;
      if (ok && result) return sentResult(String(result.message_id));
      if (refusal.error_code === undefined)
        throw new ChannelError({
          status: "unknown",
          reason: "telegram's answer could not be read",
        });
      throw Object.assign(new Error("refused"), { description: "", parameters: {}, ...refusal });
    };
    return sendToChat(chat, log, (where) =>
      send(where, isPhoto).catch((error: unknown) => {
        if (!isPhoto || !isNoPhoto(error)) throw error;
        return send(where, false);
      }),
    );
  };
}
