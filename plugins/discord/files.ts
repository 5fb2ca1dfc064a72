import type { REST } from "@discordjs/rest";
import { checkFileUrl, createFetchFile, openDownload, toEarlierMessage } from "#channel-kit";
import type { Channel, PluginContext } from "#plugin";
import { readWhole, toName, type GatewayMessage } from "./content.ts";
import { VENDOR } from "./send.ts";

/** The hosts of files. Their addresses are signed: no token goes there. */
const FILE_HOSTS = ["cdn.discordapp.com", "media.discordapp.net"];

/** Opens files, and finds messages that were quoted by their id. */
export function createContentReader(
  { config, fetch }: Pick<PluginContext<{ apiUrl: string }>, "config" | "fetch">,
  client: () => Promise<REST>,
): Required<Pick<Channel, "fetchFile" | "findQuoted">> {
  return {
    fetchFile: createFetchFile(VENDOR, async ({ ref }, signal) => {
      const url = checkFileUrl(ref, { api: config.apiUrl, hosts: FILE_HOSTS });
      return (await openDownload(url, { fetch, vendor: VENDOR, signal })).body;
    }),
    async findQuoted({ id, to }, signal) {
      const found = (await (
        await client()
      ).get(`/channels/${to}/messages/${encodeURIComponent(id)}`, { signal })) as GatewayMessage;
      return toEarlierMessage(toName(found.author) ?? found.author.id, readWhole(found));
    },
  };
}
