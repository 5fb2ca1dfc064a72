import type * as WebApi from "@slack/web-api";
import { ChannelError, checkFileUrl, sendAfter, sentResult, type ErrorRules } from "#channel-kit";
import type { FileSendResult, OutgoingFile, PluginContext } from "#plugin";

/** The hosts that take files, besides the API of the config. The address is signed: the token does not go there. */
const UPLOAD_HOSTS = ["files.slack.com"];

type UploadContext = Pick<PluginContext<{ botToken: string; apiUrl: string }>, "config" | "fetch">;

/** Uploads a file, and gives its id. Nobody sees it before it is shared. */
async function upload(
  client: WebApi.WebClient,
  file: OutgoingFile,
  { config, fetch }: UploadContext,
  signal: AbortSignal,
): Promise<string> {
  const { name, mediaType, data } = file;
  const asked = await client.files.getUploadURLExternal({ filename: name, length: data.length });
  const { upload_url: address = "", file_id: id } = asked;
  if (id === undefined)
    throw new ChannelError({ status: "failed", reason: "slack gave no address for the file" });
  const url = checkFileUrl(address, { api: config.apiUrl, hosts: UPLOAD_HOSTS });
  const headers = { "content-type": mediaType };
  const response = await fetch(url, {
    method: "POST",
    body: new Blob([data]),
    headers,
    redirect: "manual",
    signal,
  });
  await response.body?.cancel();
  if (response.ok) return id;
  const status = response.status === 429 || response.status >= 500 ? "retry" : "failed";
  throw new ChannelError({ status, reason: `slack did not take the file (${response.status})` });
}

/** Shares a file in a conversation. What became of a share whose connection was cut is not known: it is not made again. */
export async function sendFile(
  vendor: ErrorRules,
  connect: (signal: AbortSignal) => Promise<WebApi.WebClient>,
  context: UploadContext,
  { file, channel, signal }: { file: OutgoingFile; channel: string; signal: AbortSignal },
): Promise<FileSendResult> {
  return sendAfter(
    vendor,
    async () => upload(await connect(signal), file, context, signal),
    async (id) => {
      const about = {
        channel_id: channel,
        files: [{ id, title: file.name }],
        ...(file.thread !== undefined && { thread_ts: file.thread }),
      };
      await (
        await connect(signal)
      ).apiCall("files.completeUploadExternal", { ...about, files: JSON.stringify(about.files) });
      return sentResult(id);
    },
  );
}
