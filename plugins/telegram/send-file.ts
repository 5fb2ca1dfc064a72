import { ChannelError, sentResult } from "#channel-kit";
import type { FileSendResult, OutgoingFile, PluginContext, SendResult } from "#plugin";
import { getRefusal, sendToChat } from "./send.ts";

/** The images that Telegram takes as photos: other ones, and larger ones, are sent as documents. */
const PHOTOS = new Set(["image/jpeg", "image/png"]);
const MAX_PHOTO = 10_000_000;
const MAX_DOCUMENT = 50_000_000;

interface ApiAnswer {
  ok?: boolean;
  result?: { message_id: number };
  error_code?: number;
  description?: string;
  parameters?: { migrate_to_chat_id?: number };
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
}: Pick<PluginContext<{ token: string; apiUrl: string }>, "config" | "fetch" | "log">) {
  const call = async (method: string, form: FormData, signal: AbortSignal): Promise<ApiAnswer> => {
    const response = await fetch(`${config.apiUrl}/bot${config.token}/${method}`, {
      method: "POST",
      body: form,
      redirect: "manual",
      signal,
    });
    const text = await response.text();
    try {
      return JSON.parse(text) as ApiAnswer;
    } catch {
      // Proxies answer in HTML.
      return { ok: false, error_code: response.status, description: "" };
    }
  };
  return async (
    { to, thread, replyTo, name, mediaType, data }: OutgoingFile,
    signal: AbortSignal,
  ): Promise<FileSendResult> => {
    if (data.length > MAX_DOCUMENT)
      return { status: "unsupported", reason: "Telegram takes files of 50 MB at most" };
    const isPhoto = PHOTOS.has(mediaType) && data.length <= MAX_PHOTO;
    const [chat = "", topic] = to.split(":");
    const topicId = Number(thread ?? topic ?? 0);
    const reply = Number(replyTo?.split(":").at(-1) ?? Number.NaN);
    const send = async (where: string, asPhoto: boolean): Promise<SendResult> => {
      const form = new FormData();
      form.append("chat_id", where);
      if (topicId > 1) form.append("message_thread_id", String(topicId));
      if (Number.isSafeInteger(reply))
        form.append(
          "reply_parameters",
          JSON.stringify({ message_id: reply, allow_sending_without_reply: true }),
        );
      form.append(asPhoto ? "photo" : "document", new Blob([data], { type: mediaType }), name);
      const { ok, result, ...refusal } = await call(
        asPhoto ? "sendPhoto" : "sendDocument",
        form,
        signal,
      );
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
