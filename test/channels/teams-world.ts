import { onTestFinished } from "vitest";
import plugin from "../../plugins/msteams/index.ts";
import type { OutgoingMessage, SendResult } from "../../src/plugin/api.ts";
import { openPlugin } from "./open.ts";
import {
  activityRequest,
  APP_ID,
  APP_SECRET,
  ENTRA,
  PERSONAL,
  teamsServer,
  TENANT,
  type TeamsServer,
} from "./teams-server.ts";

/** The section of the config that leads to a local server. */
export const section = (url: string) => ({
  appId: APP_ID,
  appSecret: APP_SECRET,
  tenantId: TENANT,
  loginUrl: url,
  serviceUrl: url,
  openIdUrl: `${url}/openid`,
  allowFrom: [ENTRA],
  defaultTo: `user:${ENTRA}`,
});

/** Opens the channel beside a server of its own, or beside one that is there, with what was kept: after a restart. */
export async function openTeams(
  more: Record<string, unknown> = {},
  from?: { server: TeamsServer; dir: string },
) {
  const server = from?.server ?? (await teamsServer());
  if (!from) onTestFinished(server.close);
  const opened = openPlugin(plugin, { ...section(server.url), ...more }, from?.dir);
  const request = opened.channel.request;
  if (!request) throw new Error("the channel does not receive");
  return {
    ...opened,
    server,
    send: (message: Partial<OutgoingMessage>): Promise<SendResult> =>
      opened.channel.send(
        { to: PERSONAL, text: "Hello", idempotencyKey: "k", ...message },
        AbortSignal.timeout(5000),
      ),
    /** Posts an activity with a token for it. Returns the status. */
    post: async (activity: Record<string, unknown>, token?: string): Promise<number> =>
      (await request(activityRequest(activity, token ?? (await server.sign())), opened.host))
        .status,
  };
}
