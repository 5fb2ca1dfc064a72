import { sentResult } from "#channel-kit";
import type { FileSendResult, OutgoingFile } from "#plugin";
import type { Message, Server } from "./server.ts";

/** Sends a file by the server, which takes files only into a chat that is there. */
export async function sendFile(
  { call }: Pick<Server, "call">,
  { name, mediaType, data, replyTo, idempotencyKey }: OutgoingFile,
  { chatGuid, privateApi }: { chatGuid: string | undefined; privateApi: boolean },
  signal: AbortSignal,
): Promise<FileSendResult> {
  if (chatGuid === undefined)
    return { status: "unsupported", reason: "there is no chat with this person yet" };
  const form = new FormData();
  form.append("chatGuid", chatGuid);
  form.append("tempGuid", idempotencyKey);
  form.append("name", name);
  form.append("method", privateApi ? "private-api" : "apple-script");
  if (privateApi && replyTo !== undefined) form.append("selectedMessageGuid", replyTo);
  form.append("attachment", new Blob([data], { type: mediaType }), name);
  const answer = await call<{ data?: Message }>("message/attachment", signal, form);
  return sentResult(answer?.data?.guid);
}
