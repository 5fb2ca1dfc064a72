import { ChannelError, type createRest } from "#channel-kit";
import type { OutgoingFile } from "#plugin";

/** Uploads a file. One that no post names is shown to nobody, so that an upload may be repeated. */
export async function uploadFile(
  call: ReturnType<typeof createRest>,
  { name, mediaType, data }: OutgoingFile,
  channel: string,
  signal: AbortSignal,
): Promise<string> {
  const form = new FormData();
  form.append("channel_id", channel);
  form.append("files", new Blob([data], { type: mediaType }), name);
  const answer = await call<{ file_infos?: { id?: string }[] }>("files", signal, form);
  const id = answer?.file_infos?.[0]?.id;
  if (id === undefined)
    throw new ChannelError({ status: "failed", reason: "mattermost gave no id of the file" });
  return id;
}
